#include "engram/core/route.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/gen.hpp"

namespace engram::core {
namespace {

struct Shape {
  RankGrid grid;
  TableLayout table;
  WindowLayout window;
  Placement placement;
};

Shape shape_of(const test::FetchCase& c) {
  std::vector<LayerShape> layers;
  for (const auto& layer : c.layers) layers.push_back({layer.rows, Bytes{layer.row_words * 4ull}});
  const RankGrid grid = *c.grid();
  TableLayout table = *TableLayout::create(layers, grid.num_ranks());
  const WindowLayout window =
      *WindowLayout::create(grid, c.placement(), table.segment_bytes(), Bytes{0});
  return {grid, std::move(table), window, c.placement()};
}

// (owner, offset) names the row asked for, and no other.
RC_GTEST_PROP(Route, InvertsToTheSameRow, ()) {
  const auto c = *test::gen::fetch_case();
  const Shape s = shape_of(c);
  const Rank self{*rc::gen::inRange<std::uint32_t>(0, s.grid.num_ranks())};
  const auto router = make_router(s.grid, self, s.placement, s.table, s.window, {}, c.compat);
  RC_ASSERT(router.has_value());
  for (std::uint32_t l = 0; l < s.table.num_layers(); ++l) {
    const auto rows = s.table.shape(LayerIndex{l}).rows;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const Place place = router->route(l, static_cast<std::int64_t>(row));
      RC_ASSERT(global_row(s.table, LayerIndex{l}, place.owner, place.owner_offset) ==
                static_cast<std::int64_t>(row));
      // The owner does hold it.
      const auto run = s.table.rows_of(LayerIndex{l}, place.owner);
      RC_ASSERT(row >= run.first && row < run.first + run.count);
      // The peer's storage window maps the owner's segment at that offset.
      const std::uint64_t segment =
          s.window.num_segments() == 1 ? 0 : s.grid.scaleup_index(place.owner);
      RC_ASSERT(place.offset == segment * s.window.stride().count + place.owner_offset);
      RC_ASSERT(place.offset + s.table.shape(LayerIndex{l}).row.count <=
                s.window.storage_window_bytes().count);
      if (place.path == Path::rdma) {
        const Rank peer = s.grid.rank_of(router->team, self, place.peer);
        const bool right = s.grid.mode == Mode::hybrid ? s.grid.same_domain(peer, place.owner)
                                                       : peer == place.owner;
        RC_ASSERT(right);
      }
    }
  }
}

// Each owner is reached by the cheapest way it offers; compat uses the network alone.
RC_GTEST_PROP(Route, TakesTheCheapestPath, ()) {
  const auto c = *test::gen::fetch_case();
  const Shape s = shape_of(c);
  const Rank self{*rc::gen::inRange<std::uint32_t>(0, s.grid.num_ranks())};
  PathCapabilities offered;
  offered.own_memory = *rc::gen::arbitrary<bool>();
  offered.nvlink_loads = *rc::gen::arbitrary<bool>();
  offered.host_loads = *rc::gen::arbitrary<bool>();
  const auto router = make_router(s.grid, self, s.placement, s.table, s.window, offered, c.compat);
  RC_ASSERT(router.has_value());
  const bool gpu = s.placement == Placement::gpu;
  for (std::uint32_t r = 0; r < s.grid.num_ranks(); ++r) {
    const Rank owner{r};
    Path best = Path::rdma;
    if (!c.compat && owner == self) {
      if (gpu && offered.own_memory) best = Path::local;
      if (!gpu && offered.host_loads) best = Path::host;
    } else if (!c.compat && s.grid.same_domain(owner, self)) {
      if (gpu && offered.nvlink_loads) best = Path::nvlink;
      if (!gpu && offered.host_loads) best = Path::host;
    }
    RC_ASSERT(router->path_to(owner) == best);
  }
}

TEST(Route, MinusOneHasNoPath) {
  test::FetchCase c;
  const Shape s = shape_of(c);
  const auto router = make_router(s.grid, Rank{0}, s.placement, s.table, s.window, {}, false);
  ASSERT_TRUE(router);
  EXPECT_EQ(router->route(0, -1).path, Path::none);
}

TEST(Route, RefusesOwnersThatNoPathReaches) {
  test::FetchCase c;
  c.num_rdma = 2;
  const Shape s = shape_of(c);
  PathCapabilities no_network;
  no_network.rdma = false;
  const auto router =
      make_router(s.grid, Rank{1}, s.placement, s.table, s.window, no_network, false);
  ASSERT_FALSE(router);
  EXPECT_EQ(router.error().code, ErrorCode::unsupported);
  EXPECT_NE(router.error().message.find("rank 1"), std::string::npos) << router.error().message;
  EXPECT_NE(router.error().message.find("other NVLink domains"), std::string::npos);
}

// 64-bit throughout: a table whose offsets pass 2^32 and whose rows pass 2^31.
TEST(Route, LargeTablesStayExact) {
  const RankGrid grid = *RankGrid::create(16, 8, Mode::hybrid);
  const TableLayout table = *TableLayout::create(
      {{384'006'168, Bytes{264}}, {384'016'682, Bytes{264}}, {6'000'000'000ull, Bytes{512}}}, 16);
  const WindowLayout window =
      *WindowLayout::create(grid, Placement::host, table.segment_bytes(), Bytes{0});
  const Router router = *make_router(grid, Rank{0}, Placement::host, table, window, {}, false);
  const std::int64_t last = 5'999'999'999;
  const Place place = router.route(2, last);
  EXPECT_EQ(place.owner, Rank{15});
  EXPECT_EQ(place.peer, Peer{1});
  EXPECT_EQ(place.path, Path::rdma);
  EXPECT_GT(place.offset, 1ull << 40);
  EXPECT_EQ(global_row(table, LayerIndex{2}, place.owner, place.owner_offset), last);
}

}  // namespace
}  // namespace engram::core
