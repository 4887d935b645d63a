// Rows of several layers from own memory, NVLink peers and host segments, in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "engram/core/result.hpp"
#include "engram/kernels/error_record.hpp"
#include "engram/kernels/gather_plan.hpp"
#include "engram/kernels/row_table.hpp"

namespace engram::kernels {

struct GatherRowsArgs {
  const std::int64_t* indices = nullptr;  ///< device, [layers, tokens, entries]; -1 = no row
  std::byte* fetched =
      nullptr;         ///< device, [layers, tokens, entries * (row_bytes + tail.row_bytes)]
  int num_layers = 1;  ///< 1 .. kMaxLayers
  std::int64_t num_tokens = 0;
  int entries_per_token = 0;
  int row_bytes = 0;  ///< multiple of 4, the same in every layer; without the tail of a split row
  std::array<LayerRows, kMaxLayers> layers{};
  RowOwners owners{};
  RowTail tail{};
  ErrorSink error{};          ///< an index out of range is recorded here; null: not recorded
  int rank = -1;              ///< ours, for the record
  bool write_missing = true;  ///< rows of -1 and out of range become zeros; false: left alone

  /// Positions in the order to be read, [rows], or null: as they stand. See order_rows.hpp.
  const std::uint32_t* order = nullptr;
  /// Per position, from unique_rows.hpp, or null: only the first copy of each row is read.
  const std::uint32_t* tickets = nullptr;

  [[nodiscard]] constexpr std::int64_t rows_per_layer() const {
    return num_tokens * entries_per_token;
  }
  [[nodiscard]] constexpr std::int64_t num_rows() const { return num_layers * rows_per_layer(); }
  [[nodiscard]] constexpr int fetched_row_bytes() const { return row_bytes + tail.row_bytes; }
};

/// The shape plan_gather needs, alignment found from the addresses in `args`. Pointers in device
/// memory cannot be read here: they are taken to be aligned to 16 bytes.
[[nodiscard]] GatherShape shape_of(const GatherRowsArgs& args, int num_sms, int sm_limit,
                                   RowPath path = RowPath::nvlink);

/// How a launch follows the kernel before it on its stream.
enum class Launch {
  plain,
  programmatic,  ///< may be scheduled while that one drains; reads nothing before it is complete
};

/// Stream-ordered, capturable, no allocation. An index never reads outside its layer: one out of
/// range yields zeros, and the first of a launch is recorded in `args.error`.
/// `fetched` must not overlap the table. Rows that others change meanwhile may come torn.
/// `started`, an event without timing, is recorded once every block runs: computation on another
/// stream that waits for it cannot take the SMs of a gather on few SMs away.
/// Errors: invalid_argument naming sizes, counts or an address that `launch` cannot serve.
[[nodiscard]] Result<void> launch_gather_rows(const GatherRowsArgs& args,
                                              const GatherLaunch& launch, cudaStream_t stream,
                                              Launch mode = Launch::plain,
                                              cudaEvent_t started = nullptr);

/// One empty block that ends after the kernel before it on `stream`: the wait of a fetch whose
/// rows all take direct paths, cheaper than a second full launch (1.0 us in a graph).
[[nodiscard]] Result<void> launch_wait_rows(cudaStream_t stream);

}  // namespace engram::kernels
