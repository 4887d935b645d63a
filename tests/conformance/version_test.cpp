// Rows that change while they are read: no reader gets half of one, on any backend.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engram/core/row_version.hpp"
#include "support/backends.hpp"
#include "support/gen.hpp"

namespace engram::test {
namespace {

class VersionConformance : public testing::TestWithParam<BackendKind> {
 protected:
  [[nodiscard]] std::unique_ptr<core::Backend> make(const VersionCase& c) const {
    FetchCase like;
    like.num_rdma = c.num_rdma;
    like.num_nvlink = c.num_nvlink;
    like.seed = c.seed;
    return GetParam().make(like);
  }
};

TEST_P(VersionConformance, EveryRowComesInOneVersion) {
  EXPECT_TRUE(rc::check("each row is one version of itself", [this] {
    const VersionCase c = *gen::version_case();
    const auto counts = run_version_case(*make(c), c);
    if (!counts) RC_FAIL(counts.error().message);
    RC_ASSERT(counts->changing == 0u);  // no writer's few updates take that many attempts
    RC_CLASSIFY(counts->again > 0, "rows read again");
    RC_CLASSIFY(counts->newer > 0, "rows newer than the first version");
    RC_CLASSIFY(c.compat, "all through the network");
  }));
}

// One batch then waits for several peers, the own rank among them.
TEST_P(VersionConformance, OwnRowsAndSeveralFarPeersInOneBatch) {
  VersionCase c;
  c.num_rdma = 5;
  c.compat = true;
  c.rows = 20;
  c.row_words = 40;
  c.reads = 64;
  c.updates = 24;
  c.warps = 2;
  c.batch = 16;
  VersionCounts all;
  for (c.seed = 1; c.seed <= 10; ++c.seed) {
    const auto counts = run_version_case(*make(c), c);
    ASSERT_TRUE(counts) << counts.error().message << "\n" << c;
    EXPECT_EQ(counts->changing, 0u) << c;
    all.again += counts->again;
    all.newer += counts->newer;
  }
  EXPECT_GT(all.again, 0u) << "no reader met a writer";
  EXPECT_GT(all.newer, 0u);
}

TEST(RowVersion, LayersThatDoNotFitAreNamed) {
  const auto table = *core::TableLayout::create(
      {{10, Bytes{64}}, {10, Bytes{8}}, {11, Bytes{8}}, {10, Bytes{4}}}, 2);
  EXPECT_TRUE(core::check_versions(table, LayerIndex{0}, LayerIndex{1}));
  for (const std::uint32_t wrong : {0u, 2u, 3u, 4u}) {
    const auto checked = core::check_versions(table, LayerIndex{0}, LayerIndex{wrong});
    ASSERT_FALSE(checked) << wrong;
    EXPECT_NE(checked.error().message.find(fmt::format("layer {}", wrong)), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, VersionConformance, testing::ValuesIn(backends()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace engram::test
