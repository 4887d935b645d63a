// Device code of gather_scales.hpp.
#pragma once

#include "engram/kernels/error_record_device.cuh"
#include "engram/kernels/gather_scales.hpp"
#include "memory_device.cuh"
#include "place_row_device.cuh"

namespace engram::kernels {

__device__ __forceinline__ std::uint32_t read_pack(const GatherScalesArgs& args, std::int64_t token,
                                                   int entry, int pack) {
  const std::int64_t index = args.indices[token * args.entries_per_token + entry];
  if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(args.num_rows)) {
    if (index != -1 && pack == 0 && args.error.record != nullptr) {
      ErrorRecord found;
      found.kind = ErrorKind::index_out_of_range;
      found.rank = args.rank;
      found.layer = args.layer;
      found.token = token;
      found.slot = entry;
      found.seen = index;
      found.expected = args.num_rows;
      report_error(args.error, found);
    }
    return 0;
  }
  const std::uint64_t owner = args.entries_per_owner.quotient(index);
  const std::uint64_t local = index - owner * args.entries_per_owner.divisor;
  return load_global<4>(owner_base(args.owners, owner) + (local * args.packs_per_row + pack) * 4);
}

/// One thread a pack, in the order of the output, so that stores are contiguous.
template <ScaleLayout kLayout>
__global__ void __launch_bounds__(256)
    gather_scales_kernel(const __grid_constant__ GatherScalesArgs args, FastDivide inner,
                         FastDivide packs, std::uint64_t num_packs) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_packs; i += stride) {
    const std::uint64_t outer = inner.quotient(i);
    const std::uint64_t within = i - outer * inner.divisor;
    const std::uint64_t column = kLayout == ScaleLayout::row_major ? within : outer;
    const auto token =
        static_cast<std::int64_t>(kLayout == ScaleLayout::row_major ? outer : within);
    const std::uint64_t entry = packs.quotient(column);
    const auto pack = static_cast<int>(column - entry * packs.divisor);
    args.scales[i] =
        token < args.num_tokens ? read_pack(args, token, static_cast<int>(entry), pack) : 0u;
  }
}

}  // namespace engram::kernels
