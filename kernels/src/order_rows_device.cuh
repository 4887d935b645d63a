// Device code of order_rows.hpp.
#pragma once

#include <cub/block/block_scan.cuh>

#include "memory_device.cuh"
#include "place_row_device.cuh"

namespace engram::kernels {

/// Pages of all layers one behind the other.
struct PageParams {
  GatherRowsArgs args;
  FastDivide rows_per_layer;
  std::array<std::uint64_t, kMaxLayers> first_byte;  ///< of each layer
  std::uint32_t shift;       ///< page = byte >> shift
  std::uint32_t last_page;   ///< behind all real ones: rows not to be read
};

__device__ __forceinline__ std::uint32_t page_of(const PageParams& p, std::uint64_t position) {
  if (p.args.tickets != nullptr && (p.args.tickets[position] & kFirstCopy) == 0) {
    return p.last_page;
  }
  const RowSource row = find_row(p.args, p.rows_per_layer, position, false);
  if (row.state != RowState::present || owner_base(p.args.owners, row.owner) == nullptr) {
    return p.last_page;
  }
  return static_cast<std::uint32_t>(
      (p.first_byte[row.layer] + static_cast<std::uint64_t>(row.index) * p.args.row_bytes) >>
      p.shift);
}

inline constexpr int kOrderThreads = 1024;

/// Counting sort in one block: count a page's rows, add the counts up, scatter positions.
template <int kRowsPerThread>
__global__ void __launch_bounds__(kOrderThreads, 1)
    order_small_kernel(const __grid_constant__ PageParams p, std::uint32_t* order) {
  extern __shared__ std::uint32_t start[];  // [last_page + 1], padded to a multiple of the block
  using Scan = cub::BlockScan<std::uint32_t, kOrderThreads>;
  __shared__ typename Scan::TempStorage scan_storage;
  const auto num_rows = static_cast<std::uint32_t>(p.args.num_rows());
  const std::uint32_t per_thread = p.last_page / kOrderThreads + 1;
  allow_next_kernel();
  for (std::uint32_t k = 0; k < per_thread; ++k) start[k * kOrderThreads + threadIdx.x] = 0;
  wait_for_previous_kernel();
  std::uint32_t page[kRowsPerThread], before[kRowsPerThread];
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    const std::uint32_t position = k * kOrderThreads + threadIdx.x;
    page[k] = position < num_rows ? page_of(p, position) : 0;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    if (k * kOrderThreads + threadIdx.x < num_rows) before[k] = atomicAdd(&start[page[k]], 1u);
  }
  __syncthreads();
  std::uint32_t own = 0;
  for (std::uint32_t k = 0; k < per_thread; ++k) own += start[threadIdx.x * per_thread + k];
  std::uint32_t sum = 0;
  Scan(scan_storage).ExclusiveSum(own, sum);
  for (std::uint32_t k = 0; k < per_thread; ++k) {
    const std::uint32_t count = start[threadIdx.x * per_thread + k];
    start[threadIdx.x * per_thread + k] = sum;
    sum += count;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    const std::uint32_t position = k * kOrderThreads + threadIdx.x;
    if (position < num_rows) order[start[page[k]] + before[k]] = position;
  }
}

__global__ void __launch_bounds__(256) page_keys_kernel(const __grid_constant__ PageParams p,
                                                        std::uint32_t* pages,
                                                        std::uint32_t* positions) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_rows; i += stride) {
    pages[i] = page_of(p, i);
    positions[i] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace engram::kernels
