#include "engram/core/row_pattern.hpp"

#include <algorithm>

namespace engram::core {

void RowPattern::fill(LayerIndex layer, std::uint64_t row, std::span<std::byte> out) const {
  const std::uint64_t key = row_key(layer, row);
  // Whole words first: their fixed size keeps simulated fetches out of libc.
  std::size_t at = 0;
  std::uint64_t w = 0;
  for (; at + 8 <= out.size(); ++w, at += 8) {
    const std::uint64_t value = word(key, w);
    std::memcpy(out.data() + at, &value, 8);
  }
  const std::uint64_t last = word(key, w);
  std::memcpy(out.data() + at, &last, out.size() - at);
}

bool RowPattern::matches(LayerIndex layer, std::int64_t row,
                         std::span<const std::byte> bytes) const {
  if (row < 0) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  }
  const std::uint64_t key = row_key(layer, static_cast<std::uint64_t>(row));
  std::size_t at = 0;
  std::uint64_t w = 0, wrong = 0;
  for (; at + 8 <= bytes.size(); ++w, at += 8) {
    std::uint64_t got = 0;
    std::memcpy(&got, bytes.data() + at, 8);
    wrong |= got ^ word(key, w);
  }
  const std::uint64_t last = word(key, w);
  return wrong == 0 && std::memcmp(bytes.data() + at, &last, bytes.size() - at) == 0;
}

}  // namespace engram::core
