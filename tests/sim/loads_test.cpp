// Direct rows against the rows measured on two H200 over NVLink.
#include <gtest/gtest.h>

#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

struct Loads {
  std::uint64_t rows = 12'288, row_bytes = 256;
  std::uint32_t sms = 132;
  LoadPath path = LoadPath::nvlink;
  Mover mover = Mover::load;
  bool both_ways = false;
  Bytes spread{}, in_flight{};
};

// Microseconds until all rows of `loads` have arrived, spread over its SMs.
double time_of(const Loads& loads) {
  Rig rig({.profile = plain_profile(), .topology = single_switch(2)});
  std::uint64_t started = 0;
  const auto result = rig.run([&] {
    for (std::uint32_t sm = 0; sm < loads.sms; ++sm) {
      LoadRequest request{.reader = {0},
                          .owner = {1},
                          .path = loads.path,
                          .mover = loads.mover,
                          .rows = loads.rows * (sm + 1) / loads.sms - loads.rows * sm / loads.sms,
                          .row_bytes = loads.row_bytes,
                          .sm = sm,
                          .spread = loads.spread,
                          .in_flight = loads.in_flight};
      if (loads.path != LoadPath::nvlink) request.owner = {0};
      rig.fabric->load(request);
      ++started;
      if (!loads.both_ways) continue;
      std::swap(request.reader, request.owner);
      rig.fabric->load(request);
      ++started;
    }
    (void)rig.engine->sleep_for(100ms);
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(rig.client.loads, started);
  return to_micros(rig.client.last_load);
}

double gigabytes(const Loads& loads) {
  return static_cast<double>(loads.rows * loads.row_bytes) / time_of(loads) / 1e3;
}

TEST(NvLink, OneRowIsOneLatency) { EXPECT_NEAR(time_of({.rows = 1, .sms = 1}), 1.087, 0.002); }

// 10.7 us inside the kernel, of which 0.5 is reading indices and 0.4 the drain.
TEST(NvLink, TheDefaultFetch) { EXPECT_NEAR(time_of({}), 9.8, 0.5); }

TEST(NvLink, LargeGathersMeetTheLink) {
  EXPECT_NEAR(gigabytes({.rows = 1 << 20}), 372, 8);
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .row_bytes = 64}), 326, 15);
  EXPECT_NEAR(gigabytes({.rows = 1 << 18, .row_bytes = 4096}), 376, 8);
}

TEST(NvLink, AnSmPullsSoMuchAndNoMore) {
  EXPECT_NEAR(gigabytes({.rows = 1 << 18, .sms = 1}), 48, 1);
  EXPECT_NEAR(gigabytes({.rows = 1 << 18, .sms = 4}), 188, 8);
  EXPECT_GT(gigabytes({.rows = 1 << 20, .sms = 16}), 0.96 * gigabytes({.rows = 1 << 20}));
}

// One row a group of 16 lanes, 64 groups an SM: what is in flight limits, not the SM.
TEST(NvLink, FewRowsInFlightLimitAnSm) {
  const Bytes one_row_a_group{64 * 256};
  EXPECT_NEAR(gigabytes({.rows = 1 << 18, .sms = 1, .in_flight = one_row_a_group}), 15.2, 0.6);
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .sms = 16, .in_flight = one_row_a_group}), 231, 15);
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .sms = 66, .in_flight = one_row_a_group}), 362, 15);
}

TEST(NvLink, BothWaysCostTheRequestsOfTheOther) {
  EXPECT_NEAR(gigabytes({.rows = 1 << 18, .both_ways = true}), 337, 8);
}

TEST(NvLink, StoresAndTheCopyEngine) {
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .mover = Mover::store}), 370, 8);
  const Loads copy{.rows = 1, .row_bytes = 256 << 20, .sms = 1, .mover = Mover::copy_engine};
  EXPECT_NEAR(gigabytes(copy), 392, 6);
  EXPECT_NEAR(gigabytes({.rows = 1, .row_bytes = 1 << 20, .sms = 1, .mover = Mover::copy_engine}),
              90, 10);
}

TEST(OwnMemory, TheDefaultFetch) { EXPECT_NEAR(time_of({.path = LoadPath::own}), 2.0, 0.3); }

TEST(HostMemory, TheLinkThenTheReach) {
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .path = LoadPath::host, .spread = 256 * kMiB}), 51, 1);
  EXPECT_NEAR(gigabytes({.rows = 1 << 20, .path = LoadPath::host, .spread = 16 * kGiB}), 8.1, 0.5);
  EXPECT_NEAR(time_of({.path = LoadPath::host, .spread = 256 * kMiB}), 64, 2);
}

TEST(NvLink, CountersKnowTheDirections) {
  Rig rig({.profile = plain_profile(), .topology = single_switch(2)});
  const auto result = rig.run([&] {
    rig.fabric->load(
        {.reader = {0}, .owner = {1}, .path = LoadPath::nvlink, .rows = 100, .row_bytes = 256});
    (void)rig.engine->sleep_for(1ms);
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(rig.fabric->nvlink_in(Rank{0}).bytes, 100u * 288);
  EXPECT_EQ(rig.fabric->nvlink_out(Rank{1}).bytes, 100u * 288);
  EXPECT_EQ(rig.fabric->nvlink_out(Rank{0}).bytes, 100u * 32);
}

}  // namespace
}  // namespace engram::sim::testing
