#include "engram/core/fetch_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace engram::core {
namespace {

const RankGrid kFour = *RankGrid::create(4, 1, Mode::direct);
const FetchLoad kDefault{1, 12'288, Bytes{256}};

// QPs = max(1, ceil(NIC read rate x 10 us / 16 / peers)): 45 M/s keeps 450 reads in flight.
TEST(FetchPlan, NewerRuleKeepsTheNicBusyForARoundTrip) {
  FetchLimits limits;
  EXPECT_EQ(plan_fetch(kFour, kDefault, limits, SizingRule::newer, {})->num_qps, 8u);  // 450/64
  limits.nic_reads = millions_per_second(90);
  EXPECT_EQ(plan_fetch(kFour, kDefault, limits, SizingRule::newer, {})->num_qps, 15u);
  const RankGrid many = *RankGrid::create(64, 1, Mode::direct);
  EXPECT_EQ(plan_fetch(many, kDefault, limits, SizingRule::newer, {})->num_qps, 1u);
}

TEST(FetchPlan, NewerRuleDoublesDepthAsNeeded) {
  const RankGrid one_peer = *RankGrid::create(1, 1, Mode::direct);
  const auto depth = [&](std::uint64_t reads) {
    FetchOverrides one_qp;
    one_qp.qps = 1;
    return plan_fetch(one_peer, {1, reads, Bytes{256}}, {}, SizingRule::newer, one_qp)->depth;
  };
  EXPECT_EQ(depth(1), 1024u);
  EXPECT_EQ(depth(768), 1024u);
  EXPECT_EQ(depth(769), 2048u);
  EXPECT_EQ(depth(1'000'000), 32'768u);
}

TEST(FetchPlan, OlderRuleUsesAllAllocatedQps) {
  FetchLimits limits;
  const auto direct = plan_fetch(kFour, kDefault, limits, SizingRule::older, {});
  EXPECT_EQ(direct->num_qps, 17u);
  EXPECT_EQ(direct->depth, 1024u);
  EXPECT_EQ(direct->ring_every * direct->units_per_peer, 768u);
  const RankGrid hybrid = *RankGrid::create(16, 8, Mode::hybrid);
  EXPECT_EQ(plan_fetch(hybrid, kDefault, limits, SizingRule::older, {})->num_qps, 129u);
}

TEST(FetchPlan, RefusesWithWhatIsAccepted) {
  const auto message = [](FetchOverrides o) {
    return plan_fetch(kFour, kDefault, {}, SizingRule::newer, o).error().message;
  };
  EXPECT_EQ(message({.qps = 0}), "qps = 0; accepted: 1 to 129");
  EXPECT_EQ(message({.qps = 500}), "qps = 500; accepted: 1 to 129");
  EXPECT_EQ(message({.depth = 1000}), "depth = 1000; accepted: a power of two up to 32768");
  EXPECT_EQ(message({.depth = 65536}), "depth = 65536; accepted: 1 to 32768");
  EXPECT_EQ(message({.depth = 64, .flush_depth = 65}), "flush_depth = 65; accepted: 1 to 64");
  EXPECT_EQ(message({.sms = 133}), "sms = 133; accepted: 1 to 132");
}

// However it is split: units of all fetches together never fill a queue with un-rung requests.
RC_GTEST_PROP(FetchPlan, UnrungRequestsAlwaysLeaveRoom, ()) {
  const RankGrid grid =
      *RankGrid::create(*rc::gen::inRange<std::uint32_t>(1, 300), 1, Mode::direct);
  const FetchLoad load{1, *rc::gen::inRange<std::uint64_t>(0, 1'000'000), Bytes{64},
                       *rc::gen::inRange<std::uint32_t>(1, 5)};
  FetchOverrides overrides;
  overrides.qps = *rc::gen::inRange<std::uint32_t>(1, 129);
  overrides.depth = 1u << *rc::gen::inRange<std::uint32_t>(0, 15);
  const auto rule = *rc::gen::element(SizingRule::older, SizingRule::newer);
  const auto plan = plan_fetch(grid, load, {}, rule, overrides);
  RC_ASSERT(plan.has_value());
  const std::uint32_t sharers = plan->units_per_peer * load.in_flight;
  // A unit rings when it reaches ring_every, so it holds at most ring_every - 1 between posts.
  RC_ASSERT(sharers * (plan->ring_every - 1) < plan->depth);
  RC_ASSERT(plan->chunk >= 1u && plan->chunk <= kWarpLanes);
  RC_ASSERT(plan->units_per_qp() >= plan->num_peers);
}

}  // namespace
}  // namespace engram::core
