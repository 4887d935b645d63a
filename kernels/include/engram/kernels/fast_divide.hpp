// Division by a number fixed before the launch: entries an owner are rarely a power of two.
#pragma once

#include <bit>
#include <cstdint>

namespace engram::kernels {

/// Divides by multiplication (Granlund and Montgomery 1994, round-up method): exact for every
/// dividend below 2^63. Usable in device code (built with --expt-relaxed-constexpr).
struct FastDivide {
  std::uint64_t divisor = 1;
  std::uint64_t magic = 1;
  std::uint32_t shift = 0;

  constexpr FastDivide() = default;
  /// Precondition: 0 < d < 2^63.
  explicit constexpr FastDivide(std::uint64_t d)
      : divisor(d), shift(static_cast<std::uint32_t>(std::bit_width(d - 1))) {
    const auto excess = (static_cast<unsigned __int128>(1) << shift) - d;
    magic = static_cast<std::uint64_t>((excess << 64) / d + 1);
  }

  /// Precondition: n < 2^63.
  [[nodiscard]] constexpr std::uint64_t quotient(std::uint64_t n) const {
    const auto high = static_cast<std::uint64_t>((static_cast<unsigned __int128>(magic) * n) >> 64);
    return (high + n) >> shift;
  }
  [[nodiscard]] constexpr std::uint64_t remainder(std::uint64_t n) const {
    return n - quotient(n) * divisor;
  }
};

}  // namespace engram::kernels
