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

INSTANTIATE_TEST_SUITE_P(Backends, FetchConformance, testing::ValuesIn(backends()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace engram::test
