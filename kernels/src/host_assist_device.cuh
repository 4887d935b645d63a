// Device side of host_assist.hpp.
#pragma once

#include "host_assist_mailbox.hpp"
#include "place_row_device.cuh"

namespace engram::kernels {

struct AssistParams {
  GatherRowsArgs args;
  FastDivide rows_per_layer;
  AssistShared shared;
};

__device__ __forceinline__ std::uint64_t global_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// Indices to the host, checked; the block that arrives last rings.
__global__ void __launch_bounds__(256) assist_post_kernel(const __grid_constant__ AssistParams p) {
  wait_for_previous_kernel();
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_rows; i += stride) {
    const RowSource row = find_row(p.args, p.rows_per_layer, i, load_index(p.args, i), true);
    std::int64_t index = row.index;
    if (row.state == RowState::missing) index = kAssistNoRow;
    if (row.state == RowState::not_served ||
        (row.state == RowState::present && p.args.owners.inline_base[row.owner] == nullptr)) {
      index = kAssistSkipped;
    }
    p.shared.indices[i] = index;
  }
  if (blockIdx.x == 0) {
    constexpr int kWords = sizeof(GatherRowsArgs) / 4;
    const auto* const from = reinterpret_cast<const std::uint32_t*>(&p.args);
    auto* const to = reinterpret_cast<std::uint32_t*>(&p.shared.mailbox->job);
    for (int w = threadIdx.x; w < kWords; w += blockDim.x) to[w] = from[w];
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  auto* const arrived = reinterpret_cast<unsigned long long*>(p.shared.sequence + 1);
  if (atomicAdd(arrived, 1ull) + 1 < gridDim.x) return;
  *arrived = 0;
  const std::uint64_t sequence = ++*p.shared.sequence;
  __threadfence_system();
  *static_cast<volatile std::uint64_t*>(&p.shared.mailbox->doorbell) = sequence;
}

/// True once `flag` holds `sequence`; false past the limit.
__device__ __forceinline__ bool wait_for_chunk(const AssistParams& p, std::uint64_t chunk,
                                               std::uint64_t sequence) {
  const std::uint64_t begin = global_nanoseconds();
  std::uint64_t seen = 0;
  do {
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                 : "=l"(seen)
                 : "l"(__cvta_generic_to_global(&p.shared.flags[chunk].sequence))
                 : "memory");
    if (seen == sequence) return true;
  } while (global_nanoseconds() - begin < p.shared.limit_ns);
  ErrorRecord found;
  found.kind = ErrorKind::wait_timed_out;
  found.rank = p.args.rank;
  found.slot = static_cast<std::int64_t>(chunk);
  found.seen = static_cast<std::int64_t>(seen);
  found.expected = static_cast<std::int64_t>(sequence);
  report_error(p.args.error, found);
  return false;
}

inline constexpr int kCollectThreads = 256;
inline constexpr int kCollectLanes = 16;

/// A block takes every gridDim.x-th chunk: waits for its flag, copies its rows out.
template <int kBytes>
__global__ void __launch_bounds__(kCollectThreads)
    assist_collect_kernel(const __grid_constant__ AssistParams p) {
  __shared__ bool here;
  const std::uint64_t sequence = *p.shared.sequence;
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t bytes = p.args.fetched_row_bytes();
  const int lane = threadIdx.x % kCollectLanes;
  const std::uint64_t chunks = (num_rows + kAssistChunkRows - 1) / kAssistChunkRows;
  for (std::uint64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    if (threadIdx.x == 0) here = wait_for_chunk(p, chunk, sequence);
    __syncthreads();
    if (!here) return;
    for (std::uint64_t r = threadIdx.x / kCollectLanes; r < kAssistChunkRows;
         r += kCollectThreads / kCollectLanes) {
      const std::uint64_t position = chunk * kAssistChunkRows + r;
      if (position >= num_rows) break;
      const RowSource row =
          find_row(p.args, p.rows_per_layer, position, load_index(p.args, position), false);
      if (row.state == RowState::not_served) continue;
      if (row.state == RowState::present && p.args.owners.inline_base[row.owner] == nullptr) {
        continue;
      }
      for (std::uint64_t at = lane * kBytes; at < bytes; at += kCollectLanes * kBytes) {
        store_global<kBytes>(p.args.fetched + position * bytes + at,
                             load_global<kBytes>(p.shared.staging + position * bytes + at));
      }
    }
    __syncthreads();
  }
}

}  // namespace engram::kernels
