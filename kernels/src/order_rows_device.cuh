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
  std::uint32_t shift;                               ///< page = byte >> shift
  std::uint32_t last_page;                           ///< behind all real ones: rows not to be read
  bool all_served;                                   ///< no owner is null: pages need no owner
  bool simple;                                       ///< all served, one layer, no tickets
};

__device__ __forceinline__ std::uint32_t page_of(const PageParams& p, std::uint64_t position,
                                                 std::int64_t index) {
  if (p.args.tickets != nullptr && (p.args.tickets[position] & kFirstCopy) == 0) {
    return p.last_page;
  }
  const int layer =
      p.args.num_layers == 1 ? 0 : static_cast<int>(p.rows_per_layer.quotient(position));
  const LayerRows& rows = p.args.layers[layer];
  if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(rows.num_rows) ||
      (!p.all_served &&
       owner_base(p.args.owners, rows.entries_per_owner.quotient(index)) == nullptr)) {
    return p.last_page;
  }
  return static_cast<std::uint32_t>(
      (p.first_byte[layer] + static_cast<std::uint64_t>(index) * p.args.row_bytes) >> p.shift);
}

__device__ __forceinline__ std::uint32_t simple_page_of(const PageParams& p, std::int64_t index) {
  const auto rows = static_cast<std::uint64_t>(p.args.layers[0].num_rows);
  const auto row = static_cast<std::uint64_t>(index);
  return row < rows ? static_cast<std::uint32_t>(row * p.args.row_bytes >> p.shift) : p.last_page;
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
  std::int64_t index[kRowsPerThread];  // asked for together: one latency, not kRowsPerThread
#pragma unroll
  for (int k = 0; k < kRowsPerThread; ++k) {
    const std::uint32_t position = k * kOrderThreads + threadIdx.x;
    index[k] = load_index(p.args, min(position, num_rows - 1));
  }
  std::uint32_t page[kRowsPerThread], before[kRowsPerThread];
  if (p.simple) {  // little code: instructions run once are fetched from far away
#pragma unroll
    for (int k = 0; k < kRowsPerThread; ++k) page[k] = simple_page_of(p, index[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kRowsPerThread; ++k) {
      const std::uint32_t position = k * kOrderThreads + threadIdx.x;
      page[k] = position < num_rows ? page_of(p, position, index[k]) : 0;
    }
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

__global__ void __launch_bounds__(256)
    page_keys_kernel(const __grid_constant__ PageParams p, std::uint32_t* pages,
                     std::uint32_t* positions) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_rows; i += stride) {
    pages[i] = page_of(p, i, load_index(p.args, i));
    positions[i] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace engram::kernels
