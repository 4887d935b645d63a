// Device code of unique_rows.hpp.
#pragma once

#include "memory_device.cuh"
#include "place_row_device.cuh"

namespace engram::kernels {

struct UniqueParams {
  GatherRowsArgs args;
  FastDivide rows_per_layer;
  std::array<std::uint64_t, kMaxLayers> first_row;  ///< of each layer, all layers numbered through
  std::uint32_t* tickets;     ///< [rows]: slot, kFirstCopy | slot, kFirstCopy | kNoSlot, kNotServed
  unsigned long long* slots;  ///< [mask + 1]: row + 1; 0 = empty
  std::uint32_t* first;       ///< [mask + 1]: position of the first copy
  std::uint32_t mask;
};

inline constexpr std::uint32_t kNoSlot = 0x7fff'ffffu;  ///< a first copy that is in no slot: zeros
/// A table half full is probed once or twice; a spoilt one must not hold the GPU.
inline constexpr std::uint32_t kMaxProbes = 256;

__device__ __forceinline__ std::uint32_t hash_row(std::uint64_t row) {
  row *= 0x9e37'79b9'7f4a'7c15ull;
  return static_cast<std::uint32_t>(row >> 32) ^ static_cast<std::uint32_t>(row >> 11);
}

__device__ __forceinline__ std::uint32_t ticket_for(const UniqueParams& p, std::uint64_t position) {
  const RowSource row =
      find_row(p.args, p.rows_per_layer, position, load_index(p.args, position), false);
  if (row.state == RowState::missing) return kFirstCopy | kNoSlot;
  if (row.state == RowState::not_served || owner_base(p.args.owners, row.owner) == nullptr) {
    return kNotServed;
  }
  const unsigned long long key = p.first_row[row.layer] + row.index + 1;
  std::uint32_t slot = hash_row(key) & p.mask;
  for (std::uint32_t probes = 0; probes <= kMaxProbes; ++probes) {
    // Hot rows: a plain read spares most of them the atomic.
    unsigned long long held = *reinterpret_cast<volatile unsigned long long*>(p.slots + slot);
    if (held == 0) held = atomicCAS(p.slots + slot, 0ull, key);
    if (held == 0) {
      p.first[slot] = static_cast<std::uint32_t>(position);
      return kFirstCopy | slot;
    }
    if (held == key) return slot;
    slot = (slot + 1) & p.mask;
  }
  return kFirstCopy | kNoSlot;
}

__global__ void __launch_bounds__(256) mark_unique_kernel(const __grid_constant__ UniqueParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_rows; i += stride) {
    p.tickets[i] = ticket_for(p, i);
  }
}

/// kLanes threads a position.
template <int kBytes, int kLanes>
__global__ void __launch_bounds__(256)
    expand_unique_kernel(const __grid_constant__ UniqueParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int lane = threadIdx.x % kLanes;
  const auto num_rows = static_cast<std::uint64_t>(p.args.num_rows());
  const std::uint64_t bytes = p.args.fetched_row_bytes();
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x / kLanes;
  for (std::uint64_t i =
           (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
       i < num_rows; i += stride) {
    const std::uint32_t ticket = p.tickets[i];
    const std::uint32_t slot = ticket & ~kFirstCopy;
    if (ticket & kFirstCopy) {
      if (lane == 0 && slot != kNoSlot) p.slots[slot] = 0;
      continue;
    }
    if (ticket == kNotServed) continue;
    const std::byte* const src = p.args.fetched + p.first[slot] * bytes;
    std::byte* const dst = p.args.fetched + i * bytes;
    for (std::uint64_t at = lane * kBytes; at < bytes; at += kLanes * kBytes) {
      store_global<kBytes>(dst + at, load_global<kBytes>(src + at));
    }
  }
}

}  // namespace engram::kernels
