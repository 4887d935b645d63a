// How a fetch's loads are planned, from addresses that no one reads: no GPU is needed.
#include "direct_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "read_check.hpp"

namespace engram::nccl {
namespace {

using core::Placement;

std::byte* address(std::uint64_t at) { return reinterpret_cast<std::byte*>(at); }
constexpr std::uint64_t kBuffer = 1ull << 40, kGpu = 2ull << 40, kHost = 3ull << 40;

/// A table of `layers` over `ranks` of one NVLink domain, seen from rank 0.
struct Case {
  core::TableLayout table;
  DirectRowsInput in;
  std::vector<std::uint64_t> dst_base;

  Case(const std::vector<core::LayerShape>& layers, std::uint32_t ranks, Placement placement,
       std::uint64_t reads)
      : table(*core::TableLayout::create(layers, ranks)) {
    const auto grid = *core::RankGrid::create(ranks, ranks, core::Mode::direct);
    const auto window =
        *core::WindowLayout::create(grid, placement, table.segment_bytes(), Bytes{1ull << 32});
    in.router = *core::make_router(grid, Rank{0}, placement, table, window, {}, false);
    in.places = table.places();
    in.shape = {static_cast<std::uint32_t>(layers.size()), reads, 1};
    std::uint64_t at = core::kWorkspaceBytes.count;
    for (const auto& layer : layers) {
      dst_base.push_back(at);
      at += reads * layer.row.count;
    }
    in.dst_base = dst_base;
    in.buffer = address(kBuffer);
    for (std::uint32_t r = 0; r < ranks; ++r) in.owners.push_back(address(kGpu + (r << 20)));
  }
  /// Rank 0 alone, or all ranks, reach host rows by the CPU.
  void offer_help(bool all, std::int64_t rows, int threads = 24) {
    in.assist =
        kernels::HostAssistOptions{.threads = threads, .max_rows = rows, .max_row_bytes = 256};
    in.host_owners.assign(in.owners.size(), nullptr);
    for (std::size_t r = 0; r < (all ? in.owners.size() : 1); ++r) {
      in.host_owners[r] = address(kHost + (r << 20));
    }
  }
};

constexpr std::uint64_t kLargeTable = (16ull << 30) / 256;  // rows of 256 B over 16 GiB

TEST(DirectRows, HostThreadsTakeSmallFetchesFromLargeTables) {
  Case c({{kLargeTable, Bytes{256}}}, 1, Placement::host, 12'288);
  c.offer_help(true, 12'288);
  const auto planned = plan_direct_rows(c.in);
  ASSERT_TRUE(planned) << planned.error().message;
  ASSERT_EQ(planned->size(), 1u);
  const DirectGather& gather = planned->front();
  ASSERT_TRUE(gather.assisted);
  EXPECT_FALSE(gather.loads);
  EXPECT_EQ(gather.assisted->owners.inline_base[0], address(kHost));
  EXPECT_TRUE(gather.assisted->write_missing);
}

TEST(DirectRows, EachRowHasOneReaderWhereHostThreadsReachSome) {
  Case c({{kLargeTable, Bytes{256}}}, 2, Placement::host, 12'288);
  c.offer_help(false, 12'288);
  const auto planned = plan_direct_rows(c.in);
  ASSERT_TRUE(planned) << planned.error().message;
  const DirectGather& gather = planned->front();
  ASSERT_TRUE(gather.assisted);
  EXPECT_TRUE(gather.loads);
  EXPECT_FALSE(gather.args.write_missing);  // zeros are written once, by the host's part
  for (int r = 0; r < 2; ++r) {
    EXPECT_NE(gather.args.owners.inline_base[r] == nullptr,
              gather.assisted->owners.inline_base[r] == nullptr);
  }
}

TEST(DirectRows, HelpThatDoesNotFitIsNotTaken) {
  Case small({{kLargeTable, Bytes{256}}}, 1, Placement::host, 12'288);
  small.offer_help(true, 12'287);
  EXPECT_FALSE((*plan_direct_rows(small.in))[0].assisted);
  Case wide({{kLargeTable / 2, Bytes{512}}}, 1, Placement::host, 12'288);
  wide.offer_help(true, 12'288);
  EXPECT_FALSE((*plan_direct_rows(wide.in))[0].assisted);
  Case unreachable({{kLargeTable, Bytes{256}}}, 1, Placement::host, 12'288);
  unreachable.offer_help(true, 12'288);
  unreachable.in.host_owners[0] = nullptr;
  EXPECT_FALSE((*plan_direct_rows(unreachable.in))[0].assisted);
  Case many({{kLargeTable, Bytes{256}}}, 17, Placement::host, 12'288);
  many.offer_help(true, 12'288);
  EXPECT_FALSE((*plan_direct_rows(many.in))[0].assisted);
}

TEST(DirectRows, GpuRowsAreNeverTheHosts) {
  Case c({{kLargeTable, Bytes{256}}}, 2, Placement::gpu, 12'288);
  c.offer_help(true, 12'288);
  EXPECT_FALSE((*plan_direct_rows(c.in))[0].assisted);
}

TEST(DirectRows, RepeatedRowsAreReadOnceWhereThePlannerIsTold) {
  Case c({{1 << 22, Bytes{256}}}, 2, Placement::gpu, 1 << 20);
  EXPECT_FALSE((*plan_direct_rows(c.in))[0].plan.unique);
  c.in.distinct_share = 0.22;
  EXPECT_TRUE((*plan_direct_rows(c.in))[0].plan.unique);
  c.in.distinct_share = 0.9;
  EXPECT_FALSE((*plan_direct_rows(c.in))[0].plan.unique);
}

TEST(DirectRows, PlacesThatDoNotFitAreRefused) {
  Case c({{100, Bytes{64}}}, 1, Placement::gpu, 10);
  c.in.dst_base = {};
  EXPECT_EQ(plan_direct_rows(c.in).error().code, ErrorCode::invalid_argument);
}

// Every layer is in one launch, in order, and a launch's layers lie behind each other.
RC_GTEST_PROP(DirectRows, LaunchesCoverEveryLayerOnce, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  std::vector<core::LayerShape> layers;
  for (std::size_t l = 0; l < count; ++l) {
    layers.push_back({*rc::gen::inRange<std::uint64_t>(0, 1000),
                      Bytes{*rc::gen::element<std::uint64_t>(64, 64, 64, 128)}});
  }
  const auto reads = *rc::gen::inRange<std::uint64_t>(1, 50);
  Case c(layers, *rc::gen::inRange<std::uint32_t>(1, 5), Placement::gpu, reads);
  const auto planned = *plan_direct_rows(c.in);
  std::uint32_t next = 0;
  for (const DirectGather& gather : planned) {
    RC_ASSERT(gather.first_layer == next);
    RC_ASSERT(gather.args.num_layers >= 1 && gather.args.num_layers <= kernels::kMaxLayers);
    for (int l = 0; l < gather.args.num_layers; ++l, ++next) {
      RC_ASSERT(gather.args.row_bytes == static_cast<int>(layers[next].row.count));
      const std::byte* at =
          gather.args.fetched + l * static_cast<std::int64_t>(reads) * gather.args.row_bytes;
      RC_ASSERT(at == c.in.buffer + c.dst_base[next]);
    }
  }
  RC_ASSERT(next == count);
}

TEST(ReadCheck, TheFirstReadPastItsLayerOrWindowIsNamed) {
  const auto grid = *core::RankGrid::create(1, 1, core::Mode::direct);
  const auto table = *core::TableLayout::create({{10, Bytes{64}}}, 1);
  const auto window =
      *core::WindowLayout::create(grid, Placement::gpu, table.segment_bytes(), kMiB);
  const auto router = *core::make_router(grid, Rank{0}, Placement::gpu, table, window, {}, false);
  const std::vector<std::int64_t> right{9, -1, 0}, wrong{9, -1, 10};
  const std::uint64_t base[] = {core::kWorkspaceBytes.count};
  const std::uint64_t last[] = {window.buffer_window_bytes().count - 2 * 64};
  EXPECT_TRUE(check_reads({router, {}, {1, 1, 3}, right, base}, window));
  const auto no_row = check_reads({router, {}, {1, 1, 3}, wrong, base}, window);
  ASSERT_FALSE(no_row);
  EXPECT_NE(no_row.error().message.find("slot 2: row 10 of 10"), std::string::npos)
      << no_row.error().message;
  const auto past = check_reads({router, {}, {1, 1, 3}, right, last}, window);
  ASSERT_FALSE(past);
  EXPECT_NE(past.error().message.find("slot 2"), std::string::npos) << past.error().message;
  EXPECT_EQ(check_reads({router, {}, {1, 1, 2}, right, base}, window).error().code,
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace engram::nccl
