#include "engram/kernels/gather_plan.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>

namespace engram::kernels {
namespace {

constexpr std::int64_t kDefaultFetch = 12'288;
constexpr std::int64_t kLargeFetch = 1 << 20;

GatherShape shape(std::int64_t rows, int row_bytes, int sm_limit = 0,
                  RowPath path = RowPath::nvlink) {
  return {.num_rows = rows, .row_bytes = row_bytes, .sm_limit = sm_limit, .path = path};
}

FetchPlan host_plan(std::int64_t rows, int row_bytes, Bytes span, std::optional<double> share = {},
                    int assist_threads = 0) {
  const auto plan = plan_fetch({.gather = shape(rows, row_bytes, 0, RowPath::host),
                                .span = span,
                                .distinct_share = share,
                                .assist_threads = assist_threads});
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return *plan;
}

TEST(GatherPlan, GivesTheDefaultFetchALaneGroupARow) {
  const auto launch = plan_gather(shape(kDefaultFetch, 256));
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(*launch, (GatherLaunch{.vector_bytes = 16,
                                   .store_bytes = 16,
                                   .lanes = 16,
                                   .in_flight = 1,
                                   .threads = 256,
                                   .blocks = 768}));
}

TEST(GatherPlan, HoldsNoMoreSmsThanAllowedAndKeepsEightRowsInFlight) {
  const auto launch = plan_gather(shape(kLargeFetch, 256, 8));
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->blocks, 8u);
  EXPECT_EQ(launch->threads, 1024);
  EXPECT_EQ(launch->in_flight, 8);
}

TEST(GatherPlan, KeepsSeveralChunksOpenForLargeFetchesFromOwnMemory) {
  const auto large = plan_gather(shape(kLargeFetch, 512, 0, RowPath::own_memory));
  EXPECT_EQ(large->in_flight, 8);
  EXPECT_EQ(large->blocks, 132u);
  EXPECT_EQ(plan_gather(shape(kDefaultFetch, 256, 0, RowPath::own_memory))->in_flight, 1);
}

TEST(GatherPlan, LoadsTheWidestWordsThatRowsAndAddressesAllow) {
  EXPECT_EQ(plan_gather(shape(100, 264))->vector_bytes, 8);
  EXPECT_EQ(plan_gather(shape(100, 260))->vector_bytes, 4);
  auto odd = shape(100, 256);
  odd.alignment = 4;
  EXPECT_EQ(plan_gather(odd)->vector_bytes, 4);
}

TEST(GatherPlan, SplitRowsLoadSixteenBytesAndStoreWhatTheWholeRowAllows) {
  auto split = shape(100, 256);
  split.tail_bytes = 8;
  const auto launch = plan_gather(split);
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->vector_bytes, 16);
  EXPECT_EQ(launch->store_bytes, 8);
  split.sm_limit = 8;
  EXPECT_EQ(plan_gather(split)->threads, 896);
  split.row_bytes = 260;
  EXPECT_EQ(plan_gather(split).error().code, ErrorCode::invalid_argument);
}

TEST(GatherPlan, RefusesRowsThatAreNoMultipleOfFour) {
  const auto launch = plan_gather(shape(10, 6));
  ASSERT_FALSE(launch.has_value());
  EXPECT_NE(launch.error().message.find("6"), std::string::npos);
}

RC_GTEST_PROP(GatherPlan, CoversEveryChunkAndKeepsTheKernelsLimits, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 34);
  const auto row_bytes = 4 * *rc::gen::inRange(1, 1025);
  const auto sms = *rc::gen::inRange(0, 200);
  const auto launch = *plan_gather(shape(rows, row_bytes, sms));
  RC_ASSERT(row_bytes % launch.vector_bytes == 0);
  RC_ASSERT(std::has_single_bit(static_cast<unsigned>(launch.lanes)) && launch.lanes <= 32);
  RC_ASSERT(launch.in_flight == 1 || launch.in_flight == std::min(8, launch.lanes));
  RC_ASSERT(launch.blocks >= 1u);
  if (sms > 0 && sms < 132) RC_ASSERT(launch.blocks <= static_cast<std::uint32_t>(sms));
  const int vectors = row_bytes / launch.vector_bytes;
  const int slots = (vectors + launch.lanes - 1) / launch.lanes * launch.lanes;
  RC_ASSERT(slots < vectors + std::min(8, std::max(2, vectors)));  // fewer than 8 lanes idle
}

TEST(FetchPlan, OrdersHostRowsWhereTheSpanPassesTheReach) {
  EXPECT_EQ(host_plan(kLargeFetch, 256, 256 * kMiB).order, FetchOrder::as_given);
  EXPECT_EQ(host_plan(kLargeFetch, 256, 2 * kGiB).order, FetchOrder::by_page_sort);
  EXPECT_EQ(host_plan(kDefaultFetch, 256, 256 * kMiB).order, FetchOrder::as_given);
  EXPECT_EQ(host_plan(kDefaultFetch, 256, 2 * kGiB).order, FetchOrder::by_page_small);
}

TEST(FetchPlan, LeavesSmallFetchesFromLargeHostTablesToTheHost) {
  EXPECT_TRUE(host_plan(kDefaultFetch, 256, 16 * kGiB, {}, 24).assisted);
  EXPECT_TRUE(host_plan(kDefaultFetch, 256, 4 * kGiB, {}, 24).assisted);
  EXPECT_FALSE(host_plan(kDefaultFetch, 256, 2 * kGiB, {}, 24).assisted);  // in order is as fast
  EXPECT_FALSE(host_plan(kDefaultFetch, 256, 256 * kMiB, {}, 24).assisted);
  EXPECT_FALSE(host_plan(kLargeFetch, 256, 16 * kGiB, {}, 24).assisted);
  EXPECT_FALSE(host_plan(kDefaultFetch, 256, 16 * kGiB).assisted);
}

TEST(FetchPlan, SharesAHostFetchWithThreadsThatReachPartOfIt) {
  const auto plan = [](double share) {
    return *plan_fetch({.gather = shape(kDefaultFetch, 256, 0, RowPath::host),
                        .span = 16 * kGiB,
                        .assist_threads = 24,
                        .assist_share = share});
  };
  EXPECT_TRUE(plan(1.0).assisted);
  EXPECT_TRUE(plan(0.5).assisted);
  // What is left to loads then decides.
  EXPECT_LT(plan(1.0).expected, plan(0.5).expected);
  EXPECT_GT(plan(0.5).expected, estimate_host_gather(kDefaultFetch / 2 - 1, 256, 16 * kGiB, false));
}

TEST(FetchPlan, CountsDistinctRowsOfASample) {
  const std::vector<std::int64_t> rows{7, 7, -1, 3, 7, -1, 3, 3};
  EXPECT_DOUBLE_EQ(estimate_distinct_share(rows), 2.0 / 6.0);
  EXPECT_DOUBLE_EQ(estimate_distinct_share(rows, 4), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(estimate_distinct_share({}), 1.0);
  EXPECT_DOUBLE_EQ(estimate_distinct_share(std::vector<std::int64_t>{-1, -1}), 1.0);
}

TEST(FetchPlan, ReadsDistinctHostRowsOnceWhereTheyRepeat) {
  EXPECT_TRUE(host_plan(kLargeFetch, 256, 256 * kMiB, 0.22).unique);
  EXPECT_TRUE(host_plan(kDefaultFetch, 256, 256 * kMiB, 0.53).unique);
  EXPECT_FALSE(host_plan(kDefaultFetch, 256, 256 * kMiB, 0.99).unique);
  const auto both = host_plan(kLargeFetch, 256, 2 * kGiB, 0.1);
  EXPECT_TRUE(both.unique && both.order == FetchOrder::by_page_sort);
}

// Measured: 12,288 rows, Zipf 1.0 over 2 GiB, 56 us in order and 66 as distinct rows in order.
TEST(FetchPlan, LeavesRepeatsToTheOrderWhereThatIsCheaper) {
  const auto small = host_plan(kDefaultFetch, 256, 2 * kGiB, 0.53);
  EXPECT_FALSE(small.unique);
  EXPECT_EQ(small.order, FetchOrder::by_page_small);
  EXPECT_EQ(small.gather.blocks, 24u);  // 512 rows open a block
  EXPECT_NEAR(microseconds(small.expected), 57, 8);
  EXPECT_FALSE(host_plan(kLargeFetch, 256, 2 * kGiB, 0.33).unique);
}

TEST(FetchPlan, ReadsDistinctNvlinkRowsOnceOnlyInLargeFetches) {
  const auto plan = [](std::int64_t rows, double share) {
    return *plan_fetch({.gather = shape(rows, 256), .span = 2 * kGiB, .distinct_share = share});
  };
  EXPECT_TRUE(plan(kLargeFetch, 0.22).unique);
  EXPECT_FALSE(plan(kLargeFetch, 0.63).unique);
  EXPECT_FALSE(plan(kDefaultFetch, 0.53).unique);
}

TEST(FetchPlan, ExpectsWhatWasMeasured) {
  const auto within = [](Nanos model, double measured_us) {
    EXPECT_NEAR(microseconds(model) / measured_us, 1.0, 0.15) << microseconds(model);
  };
  within(estimate_host_gather(kLargeFetch, 256, 2 * kGiB, false), 268.4e6 / 15.4e3);
  within(estimate_host_gather(kLargeFetch, 256, 16 * kGiB, false), 268.4e6 / 8.1e3);
  within(estimate_host_gather(kLargeFetch, 1024, 16 * kGiB, false), 1073.7e6 / 30.1e3);
  within(estimate_host_gather(kLargeFetch, 256, 16 * kGiB, true), 268.4e6 / 40e3);
  within(estimate_host_gather(kDefaultFetch, 256, 2 * kGiB, false), 207);
  within(estimate_host_gather(kDefaultFetch, 256, 2 * kGiB, true), 66);
  within(estimate_host_gather(kDefaultFetch, 256, 16 * kGiB, true), 333);
  within(estimate_host_assist(kDefaultFetch, 256, 24), 95);
  within(estimate_host_assist(kLargeFetch, 256, 24), 8120);
}

}  // namespace
}  // namespace engram::kernels
