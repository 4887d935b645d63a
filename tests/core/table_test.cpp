#include "engram/core/table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engram/core/index_check.hpp"
#include "engram/core/lease.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/core/row_pattern.hpp"
#include "engram/core/scales.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::core {
namespace {

TEST(RankGrid, RefusesRanksThatDoNotDivide) {
  const auto grid = RankGrid::create(10, 4, Mode::hybrid);
  ASSERT_FALSE(grid);
  EXPECT_EQ(grid.error().message, "10 ranks do not divide into NVLink domains of 4 (remainder 2)");
  EXPECT_FALSE(RankGrid::create(0, 4, Mode::direct));
  EXPECT_FALSE(RankGrid::create(4, 0, Mode::direct));
}

// Positions within teams name ranks, both ways; world = scaleout_index * num_scaleup +
// scaleup_index.
RC_GTEST_PROP(RankGrid, TeamsAndRanksAgree, ()) {
  const auto domains = *rc::gen::inRange<std::uint32_t>(1, 9);
  const auto nvlink = *rc::gen::inRange<std::uint32_t>(1, 9);
  const Mode mode = *rc::gen::element(Mode::direct, Mode::hybrid);
  const RankGrid grid = *RankGrid::create(domains * nvlink, nvlink, mode);
  const Rank self{*rc::gen::inRange<std::uint32_t>(0, grid.num_ranks())};
  for (const Team team : {Team::world, Team::lsa, Team::rail}) {
    for (std::uint32_t p = 0; p < grid.team_size(team); ++p) {
      const Rank member = grid.rank_of(team, self, Peer{p});
      RC_ASSERT(member.value < grid.num_ranks());
      RC_ASSERT(grid.peer_of(team, member) == Peer{p});
    }
    RC_ASSERT(grid.rank_of(team, self, grid.peer_of(team, self)) == self);
  }
  RC_ASSERT(grid.scaleout_index(self) * grid.num_scaleup() + grid.scaleup_index(self) ==
            self.value);
  RC_ASSERT(grid.num_scaleout() * grid.num_scaleup() == grid.num_ranks());
}

// Every row has one owner, runs are consecutive, layers do not overlap.
RC_GTEST_PROP(TableLayout, SplitsRowsOverRanks, ()) {
  const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 20);
  const auto rows =
      *rc::gen::container<std::vector<std::uint64_t>>(3, rc::gen::inRange<std::uint64_t>(0, 1000));
  std::vector<LayerShape> layers;
  for (const auto n : rows)
    layers.push_back({n, Bytes{4 * *rc::gen::inRange<std::uint64_t>(1, 99)}});
  const TableLayout table = *TableLayout::create(layers, ranks);
  std::uint64_t end = 0;
  for (std::uint32_t l = 0; l < 3; ++l) {
    const LayerPlace& place = table.place(LayerIndex{l});
    RC_ASSERT(place.base_offset >= end);
    RC_ASSERT(place.base_offset % TableLayout::kLayerAlignment.count == 0);
    end = place.base_offset + place.rows_per_rank * place.row_bytes;
    std::uint64_t next = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const auto run = table.rows_of(LayerIndex{l}, Rank{r});
      RC_ASSERT(run.first == next);
      RC_ASSERT(run.count <= place.rows_per_rank);
      next += run.count;
    }
    RC_ASSERT(next == layers[l].rows);
  }
  RC_ASSERT(table.segment_bytes() == Bytes{end});
}

TEST(TableLayout, RefusesRowsNamingTheLayer) {
  const auto odd = TableLayout::create({{10, Bytes{8}}, {10, Bytes{6}}}, 2);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message, "layer 1: a row of 6 bytes; rows are a positive multiple of 4");
  EXPECT_FALSE(TableLayout::create({}, 2));
  EXPECT_FALSE(TableLayout::create({{10, Bytes{8}}}, 0));
  EXPECT_FALSE(TableLayout::create({{1ull << 62, Bytes{1024}}}, 1));
}

TEST(WindowLayout, OneTableGivesSizesAndOffsets) {
  const RankGrid grid = *RankGrid::create(16, 8, Mode::hybrid);
  const auto layout = WindowLayout::create(grid, Placement::host, Bytes{3 * kMiB.count}, Bytes{1});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->kind(), WindowKind::hybrid_elastic);
  EXPECT_EQ(layout->num_segments(), 8u);
  EXPECT_EQ(layout->stride(), 4 * kMiB);
  EXPECT_EQ(layout->segment(7).end(), layout->storage_window_bytes());
  EXPECT_EQ(layout->workspace().end(), layout->buffer().offset);
  EXPECT_EQ(layout->buffer_window_bytes(), kWorkspaceBytes + 2 * kMiB);
  const RankGrid direct = *RankGrid::create(16, 8, Mode::direct);
  EXPECT_EQ(WindowLayout::create(direct, Placement::host, kMiB, kMiB)->kind(), WindowKind::elastic);
  EXPECT_EQ(WindowLayout::create(direct, Placement::gpu, kMiB, kMiB)->kind(), WindowKind::gpu);
  EXPECT_FALSE(WindowLayout::create(grid, Placement::host, Bytes{1ull << 62}, kMiB));
}

TEST(IndexCheck, NamesLayerTokenAndSlot) {
  const TableLayout table = *TableLayout::create({{10, Bytes{4}}, {5, Bytes{4}}}, 2);
  const IndexShape shape{2, 2, 3};
  std::vector<std::int64_t> indices{0, 9, -1, 3, 3, 3, 4, 0, -1, 1, 2, 3};
  EXPECT_TRUE(check_indices(table, shape, indices));
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-2}, INT64_MAX, INT64_MIN}) {
    indices[10] = bad;
    const auto checked = check_indices(table, shape, indices);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::out_of_range);
    EXPECT_EQ(checked.error().message,
              fmt::format("layer 1, token 1, slot 1: index {} is neither -1 nor a row of 0..5 "
                          "(exclusive)",
                          bad));
  }
  EXPECT_FALSE(check_indices(table, {1, 2, 3}, indices));
  EXPECT_FALSE(check_indices(table, shape, std::span(indices).first(11)));
}

// Held leases never overlap, and what does not fit is refused with numbers.
RC_GTEST_PROP(LeaseBook, NeverOverlaps, ()) {
  LeaseBook book(Bytes{1000});
  std::vector<LeaseId> held;
  for (int i = 0; i < 60; ++i) {
    if (*rc::gen::arbitrary<bool>() && !held.empty()) {
      const auto at = *rc::gen::inRange<std::size_t>(0, held.size());
      book.give_back(held[at]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const Bytes size{*rc::gen::inRange<std::uint64_t>(0, 300)};
    const auto lease =
        *rc::gen::arbitrary<bool>()
            ? book.take_any(size, Bytes{16}, "a fetch")
            : book.take({Bytes{*rc::gen::inRange<std::uint64_t>(0, 1100)}, size}, "a fetch");
    if (!lease) continue;
    const Region got = book.region(*lease);
    RC_ASSERT(got.size == size);
    RC_ASSERT(got.end() <= Bytes{1000});
    for (const LeaseId other : held) {
      const Region region = book.region(other);
      RC_ASSERT(size.count == 0 || region.size.count == 0 || got.end() <= region.offset ||
                region.end() <= got.offset);
    }
    held.push_back(*lease);
  }
  RC_ASSERT(book.num_held() == held.size());
}

TEST(LeaseBook, NamesBothRegionsAndTheHolder) {
  LeaseBook book(Bytes{100});
  ASSERT_TRUE(book.take({Bytes{10}, Bytes{20}}, "layer 0"));
  EXPECT_EQ(
      book.take({Bytes{25}, Bytes{20}}, "layer 1").error().message,
      "layer 1: receive region [25, 45) overlaps [10, 30) of layer 0, which is still in flight");
  EXPECT_EQ(book.take({Bytes{90}, Bytes{20}}, "x").error().code, ErrorCode::out_of_range);
  EXPECT_NE(book.take_any(Bytes{80}, Bytes{1}, "x").error().message.find("largest gap is 70"),
            std::string::npos);
}

// Both layouts hold the same packs; column-major pads to multiples of 4 tokens with zeros.
RC_GTEST_PROP(Scales, LayoutsRoundTrip, ()) {
  const auto packs = *rc::gen::inRange<std::uint32_t>(1, 5);
  const auto entries = *rc::gen::inRange<std::uint32_t>(1, 5);
  const auto tokens = *rc::gen::inRange<std::uint64_t>(0, 11);
  std::vector<ScalePack> table(30 * packs);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<ScalePack>(mix64(i) | 1);
  const auto indices = *rc::gen::container<std::vector<std::int64_t>>(
      tokens * entries, rc::gen::inRange<std::int64_t>(-1, 30));
  for (const ScaleLayout layout : {ScaleLayout::row_major, ScaleLayout::column_major}) {
    const ScaleShape shape{tokens, entries * packs, layout};
    std::vector<ScalePack> out(shape.size(), 0xdeadbeef);
    gather_scales(table, packs, entries, indices, layout, out);
    std::size_t pads = out.size();
    for (std::uint64_t i = 0; i < indices.size(); ++i) {
      for (std::uint32_t k = 0; k < packs; ++k) {
        const auto column = static_cast<std::uint32_t>(i % entries) * packs + k;
        const ScalePack expected =
            indices[i] < 0 ? 0 : table[static_cast<std::uint64_t>(indices[i]) * packs + k];
        RC_ASSERT(out[shape.position(i / entries, column)] == expected);
        --pads;
      }
    }
    RC_ASSERT(std::count(out.begin(), out.end(), 0xdeadbeefu) == 0);
    const std::size_t expected_pads =
        layout == ScaleLayout::row_major ? 0 : (shape.column_stride() - tokens) * entries * packs;
    RC_ASSERT(pads == expected_pads);
  }
}

// A row differs from every other row, from the same row of another layer, and from itself shifted.
RC_GTEST_PROP(RowPattern, KnowsItsRow, ()) {
  const RowPattern pattern{*rc::gen::arbitrary<std::uint64_t>()};
  const auto row = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
  std::vector<std::byte> bytes(4 * *rc::gen::inRange<std::size_t>(2, 80));
  pattern.fill(LayerIndex{3}, static_cast<std::uint64_t>(row), bytes);
  RC_ASSERT(pattern.matches(LayerIndex{3}, row, bytes));
  RC_ASSERT(!pattern.matches(LayerIndex{3}, row + 1, bytes));
  RC_ASSERT(!pattern.matches(LayerIndex{2}, row, bytes));
  RC_ASSERT(!pattern.matches(LayerIndex{3}, -1, bytes));
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] ^= std::byte{0x40};
  RC_ASSERT(!pattern.matches(LayerIndex{3}, row, bytes));
}

}  // namespace
}  // namespace engram::core
