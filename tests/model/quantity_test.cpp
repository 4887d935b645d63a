#include "engram/model/quantity.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace engram::model {
namespace {

TEST(Quantity, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("2 MiB"), Bytes{2097152});
  EXPECT_EQ(parse_bytes("264B"), Bytes{264});
  EXPECT_EQ(parse_bytes(" 1.5 kB "), Bytes{1500});
  EXPECT_EQ(parse_time("1.5 us"), Nanos{1500});
  EXPECT_EQ(parse_time("4.7us"), Nanos{4700});
  EXPECT_EQ(parse_time("0 ns"), Nanos{0});
  EXPECT_EQ(parse_bandwidth("50 GB/s"), gigabytes_per_second(50));
  EXPECT_EQ(parse_bandwidth("400 Gb/s"), gigabits_per_second(400));
  EXPECT_EQ(parse_bandwidth("1 GiB/s"), BytesPerSecond{0x1p30});
  EXPECT_EQ(parse_rate("45 M/s"), millions_per_second(45));
  EXPECT_EQ(parse_rate("3/s"), PerSecond{3});
}

TEST(Quantity, BitsAreNotBytesAndUnitsAreNotGuessed) {
  EXPECT_EQ(parse_bandwidth("8 Gb/s"), parse_bandwidth("1 GB/s"));
  for (const char* text : {"50", "50 gb/s", "50 GB", "GB/s", "", "-1 GB/s", "inf GB/s", "nan GB/s",
                           "1e999 GB/s", "0x10 GB/s", "5 0 GB/s"}) {
    EXPECT_FALSE(parse_bandwidth(text)) << text;
  }
}

TEST(Quantity, SaysWhatIsAccepted) {
  EXPECT_EQ(parse_time("1.5 hours").error().message,
            "\"1.5 hours\" is no time: unit \"hours\" is not known; accepted: s, ms, us, ns");
  EXPECT_EQ(parse_time("7").error().message,
            "\"7\" is no time: the unit is missing; accepted: s, ms, us, ns");
  EXPECT_EQ(parse_time("0.5 ns").error().message,
            "\"0.5 ns\" is not a whole number of nanoseconds");
  EXPECT_EQ(parse_bytes("0.3 B").error().message, "\"0.3 B\" is not a whole number of bytes");
  EXPECT_EQ(parse_bytes("99999999 TiB").error().message,
            "\"99999999 TiB\" is more than 63 bits of bytes hold");
}

RC_GTEST_PROP(Quantity, SizesAndTimesAreWrittenSoThatTheyReadBackExactly, ()) {
  const auto shift = *rc::gen::inRange(0, 53);  // all magnitudes alike
  const auto n = *rc::gen::inRange<std::uint64_t>(0, (1ull << shift) + 1);
  RC_ASSERT(parse_bytes(to_text(Bytes{n})) == Bytes{n});
  // Times above a second are printed exactly too; a run longer than 11 days is not simulated.
  const Nanos t{static_cast<std::int64_t>(n % 1'000'000'000'000'000)};
  RC_ASSERT(parse_time(to_text(t)) == t);
}

RC_GTEST_PROP(Quantity, RatesReadBackToTwelveDigits, ()) {
  const double value = std::exp(*rc::gen::inRange(0, 28000) / 1000.0);
  const auto rate = parse_rate(to_text(PerSecond{value}));
  const auto bandwidth = parse_bandwidth(to_text(BytesPerSecond{value}));
  RC_ASSERT(rate.has_value() && bandwidth.has_value());
  RC_ASSERT(std::abs(rate->value / value - 1) < 1e-11);
  RC_ASSERT(std::abs(bandwidth->value / value - 1) < 1e-11);
}

}  // namespace
}  // namespace engram::model
