// Scale packs of fp8 rows: gathered locally while the rows themselves are in flight.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engram/core/result.hpp"
#include "engram/kernels/error_record.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

enum class ScaleLayout {
  row_major,     ///< [tokens, entries * packs]
  column_major,  ///< element (t, c) at c * scale_column(tokens) + t, for the copy engine
};

/// Packs from one column to the next: tokens rounded up to 4, so that a column starts at 16 bytes.
[[nodiscard]] constexpr std::int64_t scale_column(std::int64_t num_tokens) {
  return (num_tokens + 3) / 4 * 4;
}

/// A pack is 4 bytes: one float32 or four UE8M0 exponents.
struct GatherScalesArgs {
  const std::int64_t* indices =
      nullptr;                      ///< device, [tokens, entries]; -1 = no row: packs of zeros
  std::uint32_t* scales = nullptr;  ///< device, in `layout`; padding becomes zeros
  std::int64_t num_tokens = 0;
  int entries_per_token = 0;
  int packs_per_row = 0;
  ScaleLayout layout = ScaleLayout::row_major;
  std::int64_t num_rows = 0;       ///< of the table
  FastDivide entries_per_owner{};  ///< for a table shared out over owners; replicated: num_rows
  RowOwners owners{};              ///< [rows there, packs_per_row]; replicated: one. No nulls
  ErrorSink error{};               ///< as in gather_rows
  int rank = -1;
  int layer = 0;  ///< for the record
};

/// Stream-ordered, capturable, no allocation. An index out of range yields zeros and a record.
/// Errors: invalid_argument naming the count that is wrong.
[[nodiscard]] Result<void> launch_gather_scales(const GatherScalesArgs& args, cudaStream_t stream,
                                                Launch mode = Launch::plain);

}  // namespace engram::kernels
