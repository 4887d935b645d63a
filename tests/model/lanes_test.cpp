#include "engram/model/lanes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace engram::model {
namespace {

TEST(Lanes, ThreeToOneSharesTheWireAndTheLoneLaneGetsAll) {
  const auto lanes = LaneConfig::create({{0, 0}, {3, 1}}, {{0, 1}, {1, 3}});
  ASSERT_TRUE(lanes) << lanes.error().message;
  EXPECT_EQ(lanes->num_lanes(), 2u);
  EXPECT_EQ(lanes->lane(3), 1u);
  EXPECT_EQ(lanes->lane(5), std::nullopt);
  EXPECT_DOUBLE_EQ(lanes->share(1, {0, 1}), 0.75);
  EXPECT_DOUBLE_EQ(lanes->share(0, {0}), 1.0);
}

TEST(Lanes, ByDefaultEveryLevelIsOnOneLane) {
  const LaneConfig lanes;
  EXPECT_EQ(lanes.num_lanes(), 1u);
  for (std::uint32_t level = 0; level < kServiceLevels; ++level) EXPECT_EQ(lanes.lane(level), 0u);
  EXPECT_EQ(lanes.lane(kServiceLevels), std::nullopt);
  EXPECT_TRUE(lanes.warnings().empty());
}

TEST(Lanes, RefusesWhatCannotBeSent) {
  const auto message = [](const Result<LaneConfig>& c) {
    return c ? "accepted" : c.error().message;
  };
  EXPECT_EQ(message(LaneConfig::create({{0, 1}}, {{0, 1}})),
            "service level 0 is mapped to lane 1, which has no weight");
  EXPECT_EQ(message(LaneConfig::create({{0, 0}}, {{0, 0}})),
            "lane 0 has weight 0; weights are 1 to 255");
  EXPECT_EQ(message(LaneConfig::create({{0, 0}}, {{0, 256}})),
            "lane 0 has weight 256; weights are 1 to 255");
  EXPECT_EQ(message(LaneConfig::create({{16, 0}}, {{0, 1}})),
            "service level 16: levels are 0 to 15");
  EXPECT_EQ(message(LaneConfig::create({{0, 15}}, {{15, 1}})), "lane 15: lanes are 0 to 14");
  EXPECT_EQ(
      message(LaneConfig::create({}, {{0, 1}})),
      "0 service levels are mapped and 1 lanes have a weight; at least one of each is needed");
}

TEST(Lanes, WarnsOfALaneThatNothingUses) {
  const auto lanes = LaneConfig::create({{0, 0}}, {{0, 1}, {2, 7}});
  ASSERT_TRUE(lanes);
  EXPECT_EQ(lanes->warnings(),
            std::vector<std::string>{"lane 2 has weight 7 but no service level is mapped to it"});
}

RC_GTEST_PROP(Lanes, TheSharesOfTheBusyAddUpToTheWire, ()) {
  std::map<std::uint32_t, std::uint32_t> levels, weights;
  for (std::uint32_t lane = 0, n = *rc::gen::inRange<std::uint32_t>(1, 16); lane < n; ++lane) {
    levels[lane] = lane;
    weights[lane] = *rc::gen::inRange<std::uint32_t>(1, 256);
  }
  const auto lanes = LaneConfig::create(levels, weights);
  RC_ASSERT(lanes.has_value());
  std::vector<std::uint32_t> busy;
  for (const auto& [lane, weight] : weights) {
    if (*rc::gen::arbitrary<bool>()) busy.push_back(lane);
  }
  RC_PRE(!busy.empty());
  double sum = 0;
  for (const auto lane : busy) sum += lanes->share(lane, busy);
  RC_ASSERT(std::abs(sum - 1) < 1e-12);
}

}  // namespace
}  // namespace engram::model
