// Which indices a fetch accepts: -1 (no row) and the rows there are.
#pragma once

#include <cstdint>
#include <span>

#include "engram/core/result.hpp"
#include "engram/core/table.hpp"

namespace engram::core {

/// The shape of a fetch's indices: [layers, tokens, entries_per_token], row-major.
struct IndexShape {
  std::uint32_t layers = 1;
  std::uint64_t tokens = 0;
  std::uint32_t entries_per_token = 1;
  [[nodiscard]] constexpr std::uint64_t per_layer() const { return tokens * entries_per_token; }
  [[nodiscard]] constexpr std::uint64_t count() const { return layers * per_layer(); }
};

/// Errors: invalid_argument when the count does not match the shape or the layers not the table;
/// out_of_range for the first index that is neither -1 nor a row, naming layer, token and slot.
[[nodiscard]] Result<void> check_indices(const TableLayout& table, const IndexShape& shape,
                                         std::span<const std::int64_t> indices);

}  // namespace engram::core
