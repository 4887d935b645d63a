#include "engram/kernels/fast_divide.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace engram::kernels {
namespace {

constexpr std::uint64_t kTop = (std::uint64_t{1} << 63) - 1;

void expect_exact(std::uint64_t n, std::uint64_t d) {
  const FastDivide by(d);
  ASSERT_EQ(by.quotient(n), n / d) << n << " / " << d;
  ASSERT_EQ(by.remainder(n), n % d) << n << " % " << d;
}

TEST(FastDivide, IsExactAtTheEdgesOfEachDivisor) {
  const std::vector<std::uint64_t> divisors{
      1,        2,          3,   5, 7, 641, 384'006'168, 0xffffffff, 1ull << 32, (1ull << 32) + 1,
      kTop - 1, 1ull << 62, kTop};
  for (const std::uint64_t d : divisors) {
    for (const std::uint64_t times : std::vector<std::uint64_t>{0, 1, 2, kTop / d}) {
      if (times > kTop / d) continue;
      expect_exact(times * d, d);
      if (times > 0) expect_exact(times * d - 1, d);
      if (times * d < kTop) expect_exact(times * d + 1, d);
    }
    expect_exact(kTop, d);
  }
}

RC_GTEST_PROP(FastDivide, AgreesWithDivision, (std::uint64_t n, std::uint64_t d)) {
  const auto size = *rc::gen::inRange(0, 62);
  const std::uint64_t divisor = (d >> (size + 1)) + 1;
  const FastDivide by(divisor);
  RC_ASSERT(by.quotient(n & kTop) == (n & kTop) / divisor);
}

}  // namespace
}  // namespace engram::kernels
