// Values that carry their unit: bytes, rates and time.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace engram {

/// A size or an offset in bytes; never a number of rows, tokens or elements.
struct Bytes {
  std::uint64_t count = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  /// Precondition: b <= a.
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(std::uint64_t n, Bytes b) { return {n * b.count}; }
};

inline constexpr Bytes kKiB{1024};
inline constexpr Bytes kMiB{1024 * 1024};
inline constexpr Bytes kGiB{1024ull * 1024 * 1024};

/// The smallest multiple of `unit` that is >= `size`. Precondition: unit > 0.
[[nodiscard]] constexpr Bytes align_up(Bytes size, Bytes unit) {
  return {(size.count + unit.count - 1) / unit.count * unit.count};
}

using Nanos = std::chrono::nanoseconds;

/// The bandwidth of a link or a memory; 1 GB/s = 1e9 bytes a second.
struct BytesPerSecond {
  double value = 0;
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};
[[nodiscard]] constexpr BytesPerSecond gigabytes_per_second(double gb) { return {gb * 1e9}; }
/// Network gear is sold in bits: 400 Gb/s = 50 GB/s.
[[nodiscard]] constexpr BytesPerSecond gigabits_per_second(double gbit) { return {gbit * 1e9 / 8}; }

/// Requests, messages or doorbells a second.
struct PerSecond {
  double value = 0;
  constexpr auto operator<=>(const PerSecond&) const = default;
};
[[nodiscard]] constexpr PerSecond millions_per_second(double m) { return {m * 1e6}; }

/// `n` events at `rate`, rounded up to a nanosecond.
[[nodiscard]] constexpr Nanos time_for(std::uint64_t n, PerSecond rate) {
  const double exact = static_cast<double>(n) / rate.value * 1e9;
  const auto whole = static_cast<std::int64_t>(exact);
  return Nanos{static_cast<double>(whole) < exact ? whole + 1 : whole};
}

/// Time on a link, rounded up. Divide a batch's total, not each message: 64 B may be 1.28 ns.
[[nodiscard]] constexpr Nanos operator/(Bytes size, BytesPerSecond rate) {
  return time_for(size.count, PerSecond{rate.value});
}

[[nodiscard]] constexpr double microseconds(Nanos t) {
  return static_cast<double>(t.count()) / 1e3;
}

}  // namespace engram
