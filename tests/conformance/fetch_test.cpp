// What every backend must do with a fetch, whatever its shape.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>

#include "support/backends.hpp"
#include "support/gen.hpp"

namespace engram::test {
namespace {

class FetchConformance : public testing::TestWithParam<BackendKind> {
 protected:
  [[nodiscard]] Result<core::BackendStats> run(const FetchCase& c) const {
    return run_case(*GetParam().make(c), c);
  }
};

// Every byte of every row, for any shape, mode, path, order, QP count, depth and flush depth.
TEST_P(FetchConformance, DeliversTheRowsAskedFor) {
  EXPECT_TRUE(rc::check("bytes equal the reference", [this] {
    const FetchCase c = *gen::fetch_case();
    const auto stats = run(c);
    if (!stats) RC_FAIL(stats.error().message);
    RC_ASSERT(stats->completions == stats->requests);
    RC_ASSERT(stats->max_queued <= 1ull << c.depth_log2);
    RC_ASSERT(stats->max_reads_in_flight <= c.reads_in_flight);
    RC_CLASSIFY(stats->requests > 0, "uses the network");
    RC_CLASSIFY(c.num_ranks() == 1, "one rank");
    RC_CLASSIFY(c.first_count > 0, "counters near a wrap");
  }));
}

TEST_P(FetchConformance, SameSeedSameTrace) {
  EXPECT_TRUE(rc::check("trace repeats", [this] {
    const FetchCase c = *gen::fetch_case();
    const auto first = run(c), second = run(c);
    RC_PRE(first && second);
    RC_ASSERT(first->trace_hash == second->trace_hash);
    RC_ASSERT(first->steps == second->steps);
  }));
}

TEST_P(FetchConformance, CountersNearAWrapChangeNothing) {
  EXPECT_TRUE(rc::check("counts start anywhere", [this] {
    FetchCase c = *gen::fetch_case();
    c.first_count = 0;
    const auto at_zero = run(c);
    c.first_count = *gen::first_count();
    const auto moved = run(c);
    if (!at_zero || !moved) RC_FAIL((at_zero ? moved : at_zero).error().message);
    RC_ASSERT(at_zero->steps == moved->steps);
    RC_ASSERT(at_zero->doorbells == moved->doorbells);
  }));
}

TEST_P(FetchConformance, CompatSendsEveryReadThroughTheNetwork) {
  FetchCase c;
  c.num_rdma = 2;
  c.num_nvlink = 2;
  c.layers = {{200, 16}};
  c.tokens = 10;
  c.entries = 3;
  c.compat = true;
  const auto stats = run(c);
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_GE(stats->requests, 4u * 30u);  // and the barriers' signals
}

// fp8 rows: while they travel, their scales are gathered from the local replica, in both layouts.
TEST_P(FetchConformance, ScalesAreGatheredWhileRowsTravel) {
  FetchCase c;
  c.num_rdma = 2;
  const auto stats = GetParam().make(c)->run([](core::Transport& transport) -> Result<void> {
    const Nanos limit = std::chrono::seconds{10};
    const core::TableLayout layout = *core::TableLayout::create({{9, Bytes{64}, 2}}, 2);
    core::EngramOptions options;
    options.largest = {1, 3, 2};
    auto table = core::EngramTable::create(transport, layout, options);
    if (!table) return tl::unexpected(table.error());
    std::vector<core::ScalePack> packs(18);
    for (std::uint32_t i = 0; i < packs.size(); ++i) packs[i] = 100 + i;
    EXPECT_FALSE(table->write_scales(LayerIndex{0}, {1, 2, 3}));
    std::vector<core::ScalePack> out;
    const std::vector<std::int64_t> indices{8, -1, 0, 5, 5, 3};
    EXPECT_FALSE(table->scales(LayerIndex{0}, 2, indices, core::ScaleLayout::row_major, out));
    if (auto written = table->write_scales(LayerIndex{0}, packs); !written) return written;

    auto fetch = table->fetch(options.largest, indices);
    if (!fetch) return tl::unexpected(fetch.error());
    using Packs = std::vector<core::ScalePack>;
    EXPECT_TRUE(table->scales(LayerIndex{0}, 2, indices, core::ScaleLayout::row_major, out));
    EXPECT_EQ(out, (Packs{116, 117, 0, 0, 100, 101, 110, 111, 110, 111, 106, 107}));
    EXPECT_TRUE(table->scales(LayerIndex{0}, 2, indices, core::ScaleLayout::column_major, out));
    EXPECT_EQ(out, (Packs{116, 100, 110, 0, 117, 101, 111, 0, 0, 110, 106, 0, 0, 111, 107, 0}));
    EXPECT_FALSE(table->scales(LayerIndex{0}, 2, std::vector<std::int64_t>{9, 0},
                               core::ScaleLayout::row_major, out));
    return table->finish(std::move(*fetch), limit);
  });
  EXPECT_TRUE(stats) << stats.error().message;
}

// A second fetch into a region that is still in flight is refused; afterwards it is free again.
TEST_P(FetchConformance, ReceiveRegionsOfFetchesInFlightNeverOverlap) {
  FetchCase c;
  const auto stats = GetParam().make(c)->run([](core::Transport& transport) -> Result<void> {
    const Nanos limit = std::chrono::seconds{10};
    const core::TableLayout layout = *core::TableLayout::create({{9, Bytes{64}}}, 1);
    core::EngramOptions options;
    options.largest = {1, 3, 2};
    options.in_flight = 2;
    auto table = core::EngramTable::create(transport, layout, options);
    if (!table) return tl::unexpected(table.error());
    const std::vector<std::int64_t> indices{8, -1, 0, 5, 5, 3};
    const core::Region region{Bytes{0}, core::EngramTable::receive_bytes(layout, options.largest)};
    auto first = table->fetch(options.largest, indices, region);
    if (!first) return tl::unexpected(first.error());
    const auto second = table->fetch(options.largest, indices, region);
    EXPECT_FALSE(second);
    EXPECT_NE(second.error().message.find("still in flight"), std::string::npos);
    if (auto done = table->finish(std::move(*first), limit); !done) return done;
    auto third = table->fetch(options.largest, indices, region);
    if (!third) return tl::unexpected(third.error());
    return table->finish(std::move(*third), limit);
  });
  EXPECT_TRUE(stats) << stats.error().message;
}

INSTANTIATE_TEST_SUITE_P(Backends, FetchConformance, testing::ValuesIn(backends()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace engram::test
