// Rows as a function of (seed, layer, row): tables that need no memory, and an independent
// reference for every byte that a fetch delivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engram/core/device.hpp"
#include "engram/core/index.hpp"

namespace engram::core {

/// Bijective mixing of 64 bits (the finaliser of SplitMix64, Steele et al. 2014).
[[nodiscard]] ENGRAM_HD constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// The pattern of one table. Word w of a row depends on all of seed, layer, row and w, so a row
/// taken from the wrong place, shifted, or torn does not compare equal.
struct RowPattern {
  std::uint64_t seed = 1;

  [[nodiscard]] ENGRAM_HD constexpr std::uint64_t row_key(LayerIndex layer,
                                                          std::uint64_t row) const {
    return mix64(mix64(seed ^ (std::uint64_t{layer.value} << 56)) ^ row);
  }
  [[nodiscard]] ENGRAM_HD static constexpr std::uint64_t word(std::uint64_t key, std::uint64_t w) {
    return (key + w * 0x9e3779b97f4a7c15ull) ^ (key >> 29);
  }
  /// Writes one whole row.
  void fill(LayerIndex layer, std::uint64_t row, std::span<std::byte> out) const;
  /// Whether `bytes` is that row. Index -1 is a row of zeros.
  [[nodiscard]] bool matches(LayerIndex layer, std::int64_t row,
                             std::span<const std::byte> bytes) const;
};

}  // namespace engram::core
