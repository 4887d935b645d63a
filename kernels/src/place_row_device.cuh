// Position in a fetch -> where its row lies and where it goes. Shared by every kernel that reads
// indices, so that all agree on what is a row, what is missing and what another path serves.
#pragma once

#include "engram/kernels/error_record_device.cuh"
#include "engram/kernels/gather_rows.hpp"
#include "memory_device.cuh"

namespace engram::kernels {

/// GatherRowsArgs with what the host works out once for all threads.
struct GatherParams {
  GatherRowsArgs args;
  FastDivide rows_per_layer;
  FastDivide chunks;        ///< of a row
  std::uint64_t num_items;  ///< rows * chunks
  int num_vectors;          ///< of a row, without its tail
  int word_step;            ///< WordSteps::step: the lanes, or 1 where a chunk may be cut short
};

inline constexpr std::uint32_t kFirstCopy = 0x8000'0000u;  ///< ticket: this position reads its row
inline constexpr std::uint32_t kNotServed = 0x7fff'ffffu;  ///< ticket: another path's row

enum class RowState { present, missing, not_served };

struct RowSource {
  RowState state;
  int layer;
  std::uint64_t owner;
  std::uint64_t local;  ///< row within the owner's part of the layer
  std::int64_t index;
};

__device__ __forceinline__ const std::byte* owner_base(const RowOwners& owners,
                                                       std::uint64_t owner) {
  if (owners.device_base != nullptr) {
    return reinterpret_cast<const std::byte*>(load_u64(owners.device_base + owner));
  }
  return owners.inline_base[owner];
}

__device__ __forceinline__ std::int64_t load_index(const GatherRowsArgs& args,
                                                   std::uint64_t position) {
  return static_cast<std::int64_t>(load_u64(args.indices + position));
}

/// `reports`: this thread writes the error record for a bad index; one thread a row should.
/// kSimple: there is one layer.
template <bool kSimple = false>
__device__ __forceinline__ RowSource find_row(const GatherRowsArgs& args,
                                              const FastDivide& rows_per_layer,
                                              std::uint64_t position, std::int64_t index,
                                              bool reports) {
  const int layer =
      kSimple || args.num_layers == 1 ? 0 : static_cast<int>(rows_per_layer.quotient(position));
  const LayerRows& rows = args.layers[layer];
  if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(rows.num_rows)) {
    if (index != -1 && reports && args.error.record != nullptr) {
      const std::uint64_t in_layer = position - layer * rows_per_layer.divisor;
      ErrorRecord found;
      found.kind = ErrorKind::index_out_of_range;
      found.rank = args.rank;
      found.layer = layer;
      found.token = static_cast<std::int64_t>(in_layer / args.entries_per_token);
      found.slot = static_cast<std::int64_t>(in_layer % args.entries_per_token);
      found.seen = index;
      found.expected = rows.num_rows;
      report_error(args.error, found);
    }
    return {args.write_missing ? RowState::missing : RowState::not_served, layer, 0, 0, index};
  }
  const std::uint64_t owner = rows.entries_per_owner.quotient(index);
  return {RowState::present, layer, owner, index - owner * rows.entries_per_owner.divisor, index};
}

}  // namespace engram::kernels
