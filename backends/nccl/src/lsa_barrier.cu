#include <nccl_device.h>

#include <cuda/atomic>

#include "engram/nccl/lsa_barrier_args.hpp"

namespace engram::nccl {
namespace {

constexpr unsigned kThreads = 128;
template <class T>
using SystemRef = cuda::atomic_ref<T, cuda::thread_scope_system>;

__device__ std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__device__ void record_missing(const LsaBarrierArgs& args, LsaBarrierState* own,
                               std::uint32_t epoch, std::int32_t seen, std::int32_t expected) {
  LsaBarrierError* const error = args.error;
  if (error->set != 0) return;
  error->epoch = epoch;
  error->seen = seen;
  error->expected = expected;
  for (std::uint32_t i = 0; i < args.num_ranks; ++i) {
    const std::uint32_t arrived =
        SystemRef<std::uint32_t>(own->arrived[i]).load(cuda::memory_order_relaxed);
    // A signed difference: epochs wrap.
    if (static_cast<std::int32_t>(arrived - (epoch + 1)) < 0)
      error->missing[i / 32] |= 1u << i % 32;
  }
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(&error->set) = 1;
}

__global__ void __launch_bounds__(kThreads, 1) lsa_barrier_kernel(LsaBarrierArgs args) {
  auto* const own =
      static_cast<LsaBarrierState*>(ncclGetLocalPointer(args.window, args.state_offset));
  const std::uint32_t epoch = own->epoch;
  const std::uint32_t which = epoch & 1;
  const bool down = (epoch >> 1 & 1) != 0;
  __syncthreads();  // all have read the epoch before thread 0 moves it on

  for (std::uint32_t i = threadIdx.x; i < args.num_ranks; i += kThreads) {
    const std::uint32_t peer = (args.self + i) % args.num_ranks;  // spreads the first adds
    auto* const theirs = static_cast<LsaBarrierState*>(
        ncclGetLsaPointer(args.window, args.state_offset, static_cast<int>(peer)));
    SystemRef<std::uint32_t>(theirs->arrived[args.self])
        .store(epoch + 1, cuda::memory_order_relaxed);
    // System scope (DeepEP #715): a weaker release lets a peer leave before the rows written ahead
    // of the barrier are visible to its NIC.
    SystemRef<std::int32_t>(theirs->words[which])
        .fetch_add(down ? -1 : 1, cuda::memory_order_release);
  }
  if (threadIdx.x != 0) return;
  const std::int32_t goal = down ? 0 : static_cast<std::int32_t>(args.num_ranks);
  const std::uint64_t begin = now_ns();
  SystemRef<std::int32_t> word(own->words[which]);
  std::int32_t seen = word.load(cuda::memory_order_acquire);
  while (seen != goal && now_ns() - begin < args.limit_ns) {
    seen = word.load(cuda::memory_order_acquire);
  }
  if (seen != goal) record_missing(args, own, epoch, seen, goal);
  own->epoch = epoch + 1;
}

}  // namespace

cudaError_t launch_lsa_barrier(const LsaBarrierArgs& args, cudaStream_t stream) {
  lsa_barrier_kernel<<<1, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace engram::nccl
