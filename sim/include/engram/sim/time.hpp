// Simulated time: whole picoseconds, so that sums are exact and two runs agree to the last bit.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <ratio>

#include "engram/core/units.hpp"

namespace engram::sim {

/// A point in simulated time (from the start of a run) or a length of it. 2^63 ps = 106 days.
using Picos = std::chrono::duration<std::int64_t, std::pico>;

/// `amount` at `per_second`, rounded to the nearest picosecond; zero when the rate is unset (0 =
/// "not a limit").
[[nodiscard]] inline Picos time_at(double amount, double per_second) {
  return per_second > 0 ? Picos{std::llround(amount / per_second * 1e12)} : Picos{0};
}
[[nodiscard]] inline Picos wire_time(std::uint64_t bytes, BytesPerSecond rate) {
  return time_at(static_cast<double>(bytes), rate.value);
}
[[nodiscard]] inline Picos interval(PerSecond rate) { return time_at(1.0, rate.value); }

[[nodiscard]] constexpr double to_micros(Picos t) { return static_cast<double>(t.count()) * 1e-6; }

}  // namespace engram::sim
