// Counter-based random numbers: the i-th number of a stream is computed, not stepped to, so that
// ranks and layers draw independently and in any order.
#pragma once

#include <cstdint>

#include "engram/core/row_pattern.hpp"

namespace engram::tools {

using core::mix64;

class Stream {
 public:
  /// Each list of keys names another stream.
  template <class... Keys>
  explicit constexpr Stream(std::uint64_t seed, Keys... keys) : key_(mix64(seed)) {
    ((key_ = mix64(key_ ^ mix64(static_cast<std::uint64_t>(keys)))), ...);
  }
  [[nodiscard]] constexpr std::uint64_t next() {
    return mix64(key_ + 0x9e3779b97f4a7c15ull * i_++);
  }
  /// 0 <= result < bound; bias below bound / 2^64.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }
  /// 0 <= result < 1, a multiple of 2^-53.
  [[nodiscard]] constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t key_;
  std::uint64_t i_ = 0;
};

}  // namespace engram::tools
