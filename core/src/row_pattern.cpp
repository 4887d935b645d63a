#include "engram/core/row_pattern.hpp"

#include <algorithm>

namespace engram::core {

void RowPattern::fill(LayerIndex layer, std::uint64_t row, std::span<std::byte> out) const {
  const std::uint64_t key = row_key(layer, row);
  std::size_t at = 0;
  for (std::uint64_t w = 0; at < out.size(); ++w, at += 8) {
    const std::uint64_t value = word(key, w);
    std::memcpy(out.data() + at, &value, std::min<std::size_t>(8, out.size() - at));
  }
}

bool RowPattern::matches(LayerIndex layer, std::int64_t row,
                         std::span<const std::byte> bytes) const {
  if (row < 0) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  }
  const std::uint64_t key = row_key(layer, static_cast<std::uint64_t>(row));
  std::size_t at = 0;
  for (std::uint64_t w = 0; at < bytes.size(); ++w, at += 8) {
    const std::uint64_t value = word(key, w);
    if (std::memcmp(bytes.data() + at, &value, std::min<std::size_t>(8, bytes.size() - at)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace engram::core
