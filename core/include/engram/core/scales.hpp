// fp8 rows carry scale packs of 4 bytes; they are gathered locally while rows travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engram/core/device.hpp"
#include "engram/core/index_check.hpp"

namespace engram::core {

/// row_major: [tokens, entries * packs]. column_major: element (t, c) at c * align(tokens, 4) + t,
/// padded for the copy engine; pads are zeros.
enum class ScaleLayout : std::uint8_t { row_major, column_major };

/// One float32, or four packed UE8M0 exponents.
using ScalePack = std::uint32_t;

/// Positions in the gathered scales of one layer; the same arithmetic on host and GPU.
struct ScaleShape {
  std::uint64_t tokens = 0;
  std::uint32_t columns = 0;  ///< entries a token times packs a row
  ScaleLayout layout = ScaleLayout::row_major;

  [[nodiscard]] ENGRAM_HD constexpr std::uint64_t column_stride() const {
    return (tokens + 3) / 4 * 4;
  }
  [[nodiscard]] ENGRAM_HD constexpr std::uint64_t position(std::uint64_t token,
                                                           std::uint32_t column) const {
    return layout == ScaleLayout::row_major ? token * columns + column
                                            : column * column_stride() + token;
  }
  /// Packs, padding included.
  [[nodiscard]] ENGRAM_HD constexpr std::uint64_t size() const {
    return layout == ScaleLayout::row_major ? tokens * columns : columns * column_stride();
  }
};

/// Gathers one layer's scales: `table` is [rows, packs], replicated; -1 gives zeros.
/// Precondition: `indices` passed check_indices; `out` holds ScaleShape::size() packs.
void gather_scales(std::span<const ScalePack> table, std::uint32_t packs_per_row,
                   std::uint32_t entries_per_token, std::span<const std::int64_t> indices,
                   ScaleLayout layout, std::span<ScalePack> out);

}  // namespace engram::core
