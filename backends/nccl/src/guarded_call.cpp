#include "guarded_call.hpp"

#include <cuda_runtime.h>

#include <future>
#include <memory>
#include <thread>

namespace engram::nccl {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a waiting rank looks whether a peer has failed.
constexpr auto kPoll = std::chrono::milliseconds(10);
/// How long an aborted call may take to return.
constexpr auto kAbortLimit = std::chrono::seconds(5);

}  // namespace

Result<void> run_guarded(rendezvous::Rendezvous& ranks, const Result<void>& ready,
                         GuardedCall guarded) {
  if (const auto all = ranks.agree(ready); !all) return all;

  auto promise = std::make_shared<std::promise<Result<void>>>();
  auto outcome = promise->get_future();
  std::thread thread([promise, call = guarded.call, device = guarded.device] {
    const cudaError_t error = device ? cudaSetDevice(*device) : cudaSuccess;
    if (error != cudaSuccess) {
      promise->set_value(
          fail(ErrorCode::internal, "cudaSetDevice(", *device, "): ", cudaGetErrorString(error)));
      return;
    }
    promise->set_value(call());
  });

  const auto deadline = Clock::now() + guarded.limit;
  bool peer_failed = false;
  while (outcome.wait_for(kPoll) != std::future_status::ready) {
    peer_failed = ranks.failure_pending();
    if (!peer_failed && Clock::now() < deadline) continue;
    if (guarded.give_up) guarded.give_up();
    const bool returned = outcome.wait_for(kAbortLimit) == std::future_status::ready;
    returned ? thread.join() : thread.detach();
    // If a peer failed, agree() below returns its words; these are for the deadline.
    return ranks.agree(fail(ErrorCode::timed_out, guarded.what, " did not return within ",
                            std::chrono::duration<double>(guarded.limit).count(), " s",
                            returned ? "" : ", nor after it was aborted"));
  }
  thread.join();
  return ranks.agree(outcome.get());
}

}  // namespace engram::nccl
