#include "zipf.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace engram::tools {
namespace {

/// (exp(x) - 1) / x and log(1 + x) / x, continued to x = 0, where exponent 1 needs them.
double expm1_over(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double log1p_over(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

Zipf::Zipf(std::uint64_t n, double exponent) : n_(n), exponent_(exponent) {
  low_ = integral(1.5) - 1;
  high_ = integral(static_cast<double>(n) + 0.5);
  shortcut_ = 2 - inverse_integral(integral(2.5) - density(2));
}

double Zipf::density(double x) const { return std::exp(-exponent_ * std::log(x)); }

double Zipf::integral(double x) const {
  const double log_x = std::log(x);
  return expm1_over((1 - exponent_) * log_x) * log_x;
}

double Zipf::inverse_integral(double y) const {
  const double t = std::max(-1.0, y * (1 - exponent_));
  return std::exp(log1p_over(t) * y);
}

std::uint64_t Zipf::draw(Stream& stream) const {
  while (true) {
    const double u = high_ + stream.unit() * (low_ - high_);
    const double x = inverse_integral(u);
    const double rounded = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(n_));
    if (rounded - x <= shortcut_ || u >= integral(rounded + 0.5) - density(rounded)) {
      return static_cast<std::uint64_t>(rounded);
    }
  }
}

Scatter::Scatter(std::uint64_t n, std::uint64_t seed) : n_(n), step_(1), start_(0) {
  if (n < 3) return;
  // Near n / golden ratio, where multiples spread most evenly.
  step_ = static_cast<std::uint64_t>(static_cast<double>(n) * 0.6180339887498949);
  while (step_ < 1 || std::gcd(step_, n) != 1) ++step_;
  start_ = mix64(seed) % n;
}

std::uint64_t Scatter::operator()(std::uint64_t i) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(i) * step_ + start_) % n_);
}

}  // namespace engram::tools
