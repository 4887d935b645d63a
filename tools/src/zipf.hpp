// Zipf's law over up to 2^48 rows, without a table.
#pragma once

#include <cstdint>

#include "random.hpp"

namespace engram::tools {

/// Draws k in 1..n with probability proportional to k^-exponent, by rejection-inversion
/// (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996): exact, under 1.5 tries a draw for any n.
class Zipf {
 public:
  /// Preconditions: n >= 1, exponent >= 0.
  Zipf(std::uint64_t n, double exponent);
  [[nodiscard]] std::uint64_t draw(Stream& stream) const;

 private:
  [[nodiscard]] double density(double x) const;           // x^-exponent
  [[nodiscard]] double integral(double x) const;          // of density, from 1 to x
  [[nodiscard]] double inverse_integral(double y) const;

  std::uint64_t n_;
  double exponent_, low_, high_, shortcut_;
};

/// A bijection of 0..n-1 that puts neighbours far apart: popular rows lie on all owners.
class Scatter {
 public:
  explicit Scatter(std::uint64_t n, std::uint64_t seed);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const;

 private:
  std::uint64_t n_, step_, start_;
};

}  // namespace engram::tools
