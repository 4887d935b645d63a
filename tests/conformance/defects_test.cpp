// Each known defect of the field, switched on: the property that guards against it must fail within
// 200 runs. A property that cannot find its defect is worth nothing.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engram/loopback/loopback.hpp"
#include "support/gen.hpp"

namespace engram::test {
namespace {

constexpr int kRuns = 200;

/// How many runs of generated cases until one goes wrong; kRuns + 1 = none did.
int runs_until_found(const core::Defects& defects, std::uint64_t seed) {
  static_assert(core::kDefectsBuilt);
  const auto cases = gen::fetch_case();
  rc::Random random(seed);
  for (int run = 1; run <= kRuns; ++run) {
    // RapidCheck's own sizes: cases grow over the runs.
    FetchCase c = cases(random.split(), run % 100).value();
    c.flush_rings = false;  // #752: a library whose flush does not ring
    loopback::LoopbackOptions options;
    options.grid = *c.grid();
    options.seed = c.seed;
    options.reads_in_flight = c.reads_in_flight;
    options.first_count = c.first_count;
    options.defects = defects;
    const auto stats = run_case(*loopback::make_loopback(options), c, defects);
    if (!stats || stats->completions != stats->requests) return run;
  }
  return kRuns + 1;
}

/// The same for rows that are written while they are read.
int version_runs_until_found(const core::Defects& defects, std::uint64_t seed) {
  const auto cases = gen::version_case();
  rc::Random random(seed);
  for (int run = 1; run <= kRuns; ++run) {
    const VersionCase c = cases(random.split(), run % 100).value();
    loopback::LoopbackOptions options;
    options.grid = *core::RankGrid::create(c.num_ranks(), c.num_nvlink, core::Mode::direct);
    options.seed = c.seed;
    if (!run_version_case(*loopback::make_loopback(options), c, defects)) return run;
  }
  return kRuns + 1;
}

struct Named {
  const char* name;
  core::Defects defects;
};

class DefectTest : public testing::TestWithParam<Named> {};

TEST_P(DefectTest, IsFoundWithin200Runs) {
  for (const std::uint64_t seed : {1ull, 2ull, 3ull}) {
    const int runs = runs_until_found(GetParam().defects, seed);
    EXPECT_LE(runs, kRuns) << "seed " << seed;
    std::printf("  %s, seed %d: found in run %d\n", GetParam().name, static_cast<int>(seed), runs);
  }
}

TEST(Defects, VersionsIgnoredIsFoundWithin200Runs) {
  for (const std::uint64_t seed : {1ull, 2ull, 3ull}) {
    const int runs = version_runs_until_found({.versions_ignored = true}, seed);
    EXPECT_LE(runs, kRuns) << "seed " << seed;
    std::printf("  versions_ignored, seed %d: found in run %d\n", static_cast<int>(seed), runs);
  }
  EXPECT_EQ(version_runs_until_found({}, 1), kRuns + 1);
}

// The same cases are right without any defect, so that finding one means something.
TEST(Defects, NoneMeansNoFailure) { EXPECT_EQ(runs_until_found({}, 1), kRuns + 1); }

INSTANTIATE_TEST_SUITE_P(Known, DefectTest,
                         testing::Values(Named{"tail_not_rung", {.tail_not_rung = true}},
                                         Named{"no_back_pressure", {.no_back_pressure = true}},
                                         Named{"negative_is_row", {.negative_is_row = true}},
                                         Named{"counter_wraps", {.counter_wraps = true}},
                                         Named{"lease_ignored", {.lease_ignored = true}}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace engram::test
