#include "engram/rendezvous/launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace engram::rendezvous {
namespace {

struct Line {
  std::uint32_t rank;
  bool to_stderr;
  std::string text;
  auto operator<=>(const Line&) const = default;
};

struct Launched {
  Result<LaunchOutcome> outcome = fail(ErrorCode::internal, "not run");
  std::vector<Line> lines;
  [[nodiscard]] bool has(std::string_view part) const {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const Line& line) { return line.text.find(part) != std::string::npos; });
  }
};

Launched launch(std::uint32_t num_ranks, std::vector<std::string> argv,
                const std::function<void(LaunchOptions&)>& change = {}) {
  Launched launched;
  LaunchOptions options;
  options.num_ranks = num_ranks;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/bin:/bin", "ENGRAM_RANK=77"};  // an outer job's: dropped
  options.sink = [&](Rank rank, bool to_stderr, std::string_view line) {
    launched.lines.push_back({rank.value, to_stderr, std::string(line)});
  };
  options.kill_grace = std::chrono::milliseconds(300);
  if (change) change(options);
  launched.outcome = launch_local(options);
  return launched;
}

class LaunchOf : public ::testing::TestWithParam<std::uint32_t> {};
TEST_P(LaunchOf, RanksMeetAndTheirLinesAreMarked) {
  const auto n = GetParam();
  auto launched = launch(n, {ENGRAM_TEST_RANK_PROGRAM, "meet"});
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  EXPECT_EQ(launched.outcome->exit_status, 0) << launched.outcome->explanation;
  EXPECT_FALSE(launched.outcome->first_failed);
  std::vector<Line> expected;
  for (std::uint32_t r = 0; r < n; ++r) {
    expected.push_back({r, false, std::to_string(n) + " ranks"});
    expected.push_back({r, false, "no newline at the end"});
  }
  std::sort(expected.begin(), expected.end());
  std::sort(launched.lines.begin(), launched.lines.end());
  EXPECT_EQ(launched.lines, expected);
}
INSTANTIATE_TEST_SUITE_P(Ranks, LaunchOf, ::testing::Values(1u, 2u, 8u));

TEST(Launch, AStatusIsPassedOnWithTheRankThatGaveIt) {
  const auto launched = launch(3, {ENGRAM_TEST_RANK_PROGRAM, "status"});
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  // Ranks 0 and 1 hear of rank 2's leaving and may end with 1 by themselves, but only after it.
  EXPECT_EQ(launched.outcome->ranks[2].code, 7);
  EXPECT_NE(launched.outcome->exit_status, 0);
  ASSERT_TRUE(launched.outcome->first_failed);
}

// A killed rank is named by the launcher and, to the ranks that wait for it, by the rendezvous.
TEST(Launch, AKilledRankIsNamedEverywhere) {
  const auto launched = launch(4, {ENGRAM_TEST_RANK_PROGRAM, "kill"});
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  EXPECT_EQ(launched.outcome->first_failed, Rank{3});
  EXPECT_EQ(launched.outcome->exit_status, 128 + 9);
  EXPECT_EQ(launched.outcome->explanation, "rank 3 was killed by signal 9 (Killed)");
  EXPECT_TRUE(launched.outcome->ranks[0].ended_by_us);
}

TEST(Launch, RanksThatIgnoreSigtermAreKilled) {
  const auto begin = std::chrono::steady_clock::now();
  const auto launched = launch(3, {ENGRAM_TEST_RANK_PROGRAM, "stubborn"});
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  EXPECT_EQ(launched.outcome->exit_status, 5);
  EXPECT_EQ(launched.outcome->first_failed, Rank{2});
  EXPECT_EQ(launched.outcome->ranks[0].code, 128 + 9);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Launch, TheLimitEndsAllAndNamesWhoRan) {
  const auto launched = launch(2, {ENGRAM_TEST_RANK_PROGRAM, "sleep"}, [](LaunchOptions& options) {
    options.limit = std::chrono::milliseconds(400);
  });
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  EXPECT_EQ(launched.outcome->exit_status, 124);
  EXPECT_EQ(launched.outcome->explanation, "ranks 0, 1 still ran after the limit of 0.4 s");
}

TEST(Launch, AProgramsOwnChildrenEndWithIt) {
  const auto begin = std::chrono::steady_clock::now();
  const auto launched = launch(2, {"sh", "-c", "sleep 100 & echo started"});
  ASSERT_TRUE(launched.outcome) << launched.outcome.error().message;
  EXPECT_EQ(launched.outcome->exit_status, 0);
  EXPECT_TRUE(launched.has("started"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Launch, StderrAndLongLinesArePassedOn) {
  const auto launched =
      launch(1, {"sh", "-c", "echo oops >&2; head -c 200000 /dev/zero | tr '\\0' x"});
  ASSERT_TRUE(launched.outcome);
  std::size_t sum = 0;
  for (const auto& line : launched.lines) {
    if (line.to_stderr)
      EXPECT_EQ(line.text, "oops");
    else
      sum += line.text.size();
  }
  EXPECT_EQ(sum, 200000u);
}

TEST(Launch, WhatIsNoProgramIsNamed) {
  const auto launched = launch(2, {"no-such-program-here"});
  ASSERT_FALSE(launched.outcome);
  EXPECT_EQ(launched.outcome.error().code, ErrorCode::not_found);
  EXPECT_EQ(launched.outcome.error().message, "no-such-program-here is not on PATH=/usr/bin:/bin");
  EXPECT_EQ(launch(0, {"sh"}).outcome.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace engram::rendezvous
