#include "engram/nccl/lsa_barrier.hpp"

#include <utility>

namespace engram::nccl {
namespace {

Result<void> check_cuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, what, ": ", cudaGetErrorString(error));
}

}  // namespace

Result<LsaBarrier> LsaBarrier::create(Communicator& communicator, const RegisteredWindow& window) {
  LsaBarrier barrier;
  barrier.grid_ = communicator.grid();
  barrier.rank_ = communicator.rank();
  const std::uint32_t num_ranks = barrier.grid_.num_nvlink;
  const auto prepare = [&]() -> Result<void> {
    if (num_ranks > kMaxLsaRanks) {
      return fail(ErrorCode::out_of_range, num_ranks, " ranks in one NVLink domain, at most ",
                  kMaxLsaRanks);
    }
    if (kOffset.count + sizeof(LsaBarrierState) > window.size.count) {
      return fail(ErrorCode::out_of_range, "the barrier's state ends at ",
                  kOffset.count + sizeof(LsaBarrierState), " B of a window of ", window.size.count,
                  " B");
    }
    LsaBarrierError* record = nullptr;
    auto done = check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&record), sizeof(*record),
                                         cudaHostAllocMapped | cudaHostAllocPortable),
                           "the barrier's error record");
    if (!done) return done;
    barrier.error_.reset(record);
    *record = LsaBarrierError{};
    void* on_device = nullptr;
    done = check_cuda(cudaHostGetDevicePointer(&on_device, record, 0), "the error record");
    if (!done) return done;
    barrier.args_ = {window.handle,
                     kOffset.count,
                     barrier.grid_.nvlink_index(barrier.rank_),
                     num_ranks,
                     0,
                     static_cast<LsaBarrierError*>(on_device)};
    done = check_cuda(cudaMemset(window.base + kOffset.count, 0, sizeof(LsaBarrierState)),
                      "clearing the barrier's state");
    if (!done) return done;
    return check_cuda(cudaDeviceSynchronize(), "clearing the barrier's state");
  };
  // No rank may add to a word that its owner has yet to clear.
  if (const auto all = communicator.ranks().agree(prepare()); !all) {
    return tl::unexpected<Error>(all.error());
  }
  return barrier;
}

Result<void> LsaBarrier::enqueue(cudaStream_t stream, Nanos limit) {
  LsaBarrierArgs args = args_;
  args.limit_ns = static_cast<std::uint64_t>(limit.count());
  return check_cuda(launch_lsa_barrier(args, stream), "launching the barrier");
}

Result<void> LsaBarrier::check() const {
  if (static_cast<volatile const LsaBarrierError*>(error_.get())->set == 0) return {};
  return fail(ErrorCode::timed_out, describe(*error_, grid_, rank_));
}

std::string describe(const LsaBarrierError& error, const core::RankGrid& grid, Rank self) {
  std::string list;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < grid.num_nvlink; ++i) {
    if ((error.missing[i / 32] >> (i % 32) & 1) == 0) continue;
    ++count;
    list += fmt::format("{}{}", list.empty() ? "" : ", ",
                        grid.rank_of(core::Team::lsa, self, Peer{i}).value);
  }
  return fmt::format("barrier {} of rank {}: word is {}, expected {}; {} {} not seen", error.epoch,
                     self.value, error.seen, error.expected, count == 1 ? "rank" : "ranks", list);
}

}  // namespace engram::nccl
