#include "engram/model/floors.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>

#include "engram/model/profile_file.hpp"

namespace engram::model {
namespace {

Profile bundled(std::string_view name) { return *load_profile(name, default_profile_dirs()); }

std::optional<Nanos> floor_of(const std::vector<Floor>& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &Floor::name);
  return found == list.end() ? std::nullopt : std::optional(found->time);
}

TEST(Floors, TheDefaultFetchIsBoundByTheMessageRate) {
  const auto list = floors({.row = {256}, .rdma_reads = 12288}, bundled("h100-cx7-400"));
  ASSERT_GE(list.size(), 2u);
  EXPECT_EQ(list[0].name, "message_rate");
  EXPECT_EQ(list[0].time, Nanos{273067});  // 273 us
  EXPECT_EQ(list[0].formula, "12288 reads / 45 M/s");
  EXPECT_EQ(floor_of(list, "line"), Nanos{62915});  // 63 us
  EXPECT_EQ(floor_of(list, "outstanding_reads"), std::nullopt) << "QPs were not stated";
}

TEST(Floors, OnePairOfGpusIsBoundByNvlink) {
  const auto list = floors({.row = {256}, .nvlink_rows = 12288}, bundled("h200-nvlink-pair"));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "nvlink");
  EXPECT_NEAR(microseconds(list[0].time), 8.4, 0.1);  // measured: 8.5 on the wire
}

TEST(Floors, FewSmsBoundWhatTheyLoad) {
  const auto p = bundled("h200-nvlink-pair");
  const auto all = floors({.row = {256}, .nvlink_rows = 1 << 20, .sms = 132}, p);
  const auto one = floors({.row = {256}, .nvlink_rows = 1 << 20, .sms = 1}, p);
  EXPECT_EQ(all.size(), 1u);
  EXPECT_NEAR(static_cast<double>(one[0].time.count()) * 48, 256.0 * (1 << 20), 100);
  EXPECT_GT(one[0].time, all[0].time);
}

TEST(Floors, AServedReadCountsOnTheLineAndAtTheResponder) {
  const auto list =
      floors({.row = {8192}, .rdma_reads = 10, .served_reads = 1000}, bundled("h100-cx7-400"));
  EXPECT_EQ(list[0].name, "line");
  EXPECT_EQ(list[0].time, Nanos{163840});
  EXPECT_EQ(floor_of(list, "responder_rate"), Nanos{22223});
}

TEST(Floors, OneThreadIsBoundByWhatItWrites) {
  const auto list =
      floors({.row = {256}, .rdma_reads = 1600, .qps = 64, .issue_threads = 1, .doorbells = 100},
             bundled("h200-cx7-200"));
  EXPECT_EQ(list[0].name, "issue");
  EXPECT_EQ(list[0].time, Nanos{1600 * 190 + 100 * 369});  // 4.69 M/s, published 4.70
}

TEST(Floors, NothingToMoveHasNoFloor) { EXPECT_TRUE(floors({}, bundled("h100-cx7-400")).empty()); }

TEST(Floors, AReadHoldsItsSlotForLessThanTheWholeRoundTrip) {
  const auto p = bundled("h100-cx7-400");
  EXPECT_GT(read_in_flight(p, false), read_in_flight(p, true));
  EXPECT_LT(read_in_flight(p, false), Nanos{10000});
}

RC_GTEST_PROP(Floors, MoreResourcesNeverRaiseAFloor, ()) {
  static const Profile profiles[] = {bundled("h100-cx7-400"), bundled("gb200-cx8-800"),
                                     bundled("gin-plugin")};
  const Profile& p = profiles[*rc::gen::inRange(0, 3)];
  const auto some = [] { return *rc::gen::inRange<std::uint32_t>(0, 100000); };
  FetchLoad load{.row = {*rc::gen::inRange<std::uint64_t>(1, 8192)},
                 .rdma_reads = some(),
                 .nvlink_rows = some(),
                 .host_rows = some(),
                 .local_rows = some(),
                 .served_reads = some(),
                 .qps = *rc::gen::inRange<std::uint32_t>(1, 200),
                 .issue_threads = *rc::gen::inRange<std::uint32_t>(1, 5000),
                 .doorbells = some(),
                 .sms = *rc::gen::inRange<std::uint32_t>(1, 133)};
  auto better = p;
  better.nic.port.value *= 2;
  better.nic.read_rate.value *= 2;
  better.nvlink.raw.value *= 2;
  auto more = load;
  more.qps *= 2;
  more.issue_threads *= 2;
  more.sms *= 2;
  const auto before = floors(load, p), after = floors(more, better);
  for (const auto& floor : after) RC_ASSERT(floor.time <= *floor_of(before, floor.name));
  RC_ASSERT(std::ranges::is_sorted(before, std::greater{}, &Floor::time));
}

}  // namespace
}  // namespace engram::model
