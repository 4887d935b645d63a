#include "engram/nccl/device_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace engram::nccl {
namespace {

using core::Mode;

DeviceOptions options_of(Mode mode) {
  DeviceOptions options;
  options.mode = mode;
  return options;
}

TEST(DevicePlan, ReferenceDefaults) {
  const auto plan = plan_device({16, 2, true, NCCL_GIN_TYPE_GDAKI, NCCL_GIN_TYPE_GDAKI},
                                options_of(Mode::hybrid));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->connection, NCCL_GIN_CONNECTION_RAIL);
  EXPECT_EQ(plan->queue_depth, 1024u);
  EXPECT_EQ(plan->num_signals, 20u);
  EXPECT_EQ(plan->traffic_class, 3);
  EXPECT_EQ(plan->grid.num_nvlink, 8u);
  EXPECT_EQ(plan->grid.num_rdma, 2u);
  EXPECT_TRUE(plan->exclusive_qps);
}

TEST(DevicePlan, TheProxySetsItsOwnDepth) {
  const auto plan =
      plan_device({2, 1, true, NCCL_GIN_TYPE_PROXY, NCCL_GIN_TYPE_PROXY}, options_of(Mode::direct));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->connection, NCCL_GIN_CONNECTION_FULL);
  EXPECT_EQ(plan->queue_depth, 0u);
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_NE(plan->notes[0].find("1024"), std::string::npos);
}

TEST(DevicePlan, ANetworkThatIsNotWantedIsNotThere) {
  DeviceOptions options = options_of(Mode::direct);
  options.use_network = false;
  const auto plan = plan_device({2, 1, true, NCCL_GIN_TYPE_GDAKI, NCCL_GIN_TYPE_GDAKI}, options);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->has_network());
  const auto apart = plan_device({2, 2, true, NCCL_GIN_TYPE_GDAKI, NCCL_GIN_TYPE_GDAKI}, options);
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().code, ErrorCode::unsupported);
}

TEST(DevicePlan, NoGinIsSupportedWhereLoadsReachAllPeers) {
  const auto plan =
      plan_device({8, 1, true, NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE}, options_of(Mode::direct));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->has_network());
  EXPECT_EQ(plan->num_qps, 0u);
  DeviceOptions required = options_of(Mode::direct);
  required.require_network = true;
  EXPECT_FALSE(plan_device({8, 1, true, NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE}, required));
}

TEST(DevicePlan, AnUnreachablePeerIsRefusedWithARemedy) {
  const auto none =
      plan_device({16, 2, true, NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_NONE}, options_of(Mode::direct));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_NE(none.error().message.find("16 ranks are in 2 NVLink domains"), std::string::npos);
  EXPECT_NE(none.error().message.find("engram doctor"), std::string::npos);
  const auto rails =
      plan_device({16, 2, true, NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_PROXY}, options_of(Mode::direct));
  ASSERT_FALSE(rails);
  EXPECT_NE(rails.error().message.find("NCCL_CROSS_NIC=0"), std::string::npos);
  EXPECT_NE(rails.error().message.find("use hybrid mode"), std::string::npos);
}

TEST(DevicePlan, WrongNumbersAreNamed) {
  EXPECT_EQ(plan_device({16, 3, true}, {}).error().message,
            "16 ranks in 3 NVLink domains: every domain must have the same number");
  EXPECT_FALSE(plan_device({2, 1, false}, {}));
  DeviceOptions few;
  few.num_signals = 5;
  const auto plan = plan_device({2, 1, true, NCCL_GIN_TYPE_GPI, NCCL_GIN_TYPE_GPI}, few);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("5 signals (at least ranks + 4 = 6)"), std::string::npos);
}

// Whatever NCCL offers: a plan reaches every peer, or the answer is an error.
RC_GTEST_PROP(DevicePlan, ReachesEveryPeerOrRefuses, ()) {
  const auto type = rc::gen::element(NCCL_GIN_TYPE_NONE, NCCL_GIN_TYPE_PROXY, NCCL_GIN_TYPE_GDAKI,
                                     NCCL_GIN_TYPE_GPI);
  const CommFacts facts{*rc::gen::inRange<std::uint32_t>(1, 33),
                        *rc::gen::inRange<std::uint32_t>(1, 5), true, *type, *type};
  const auto mode = *rc::gen::element(Mode::direct, Mode::hybrid);
  const auto plan = plan_device(facts, options_of(mode));
  RC_CLASSIFY(plan.has_value(), "planned");
  if (!plan) return;
  RC_ASSERT(plan->grid.num_ranks() == facts.num_ranks);
  RC_ASSERT(plan->has_network() || plan->grid.num_rdma == 1);
  RC_ASSERT(!plan->has_network() || plan->gin == (mode == Mode::hybrid ? facts.railed : facts.gin));
}

}  // namespace
}  // namespace engram::nccl
