#include "engram/rendezvous/launch.hpp"
#include "engram/rendezvous/rank_output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>

#include "engram/rendezvous/listener.hpp"
#include "support/scratch_folder.hpp"

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
  // Ranks 0 and 1 hear that rank 2's connection ended and may end with 1, but only after it.
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
  EXPECT_EQ(launch(2, {"/tmp"}).outcome.error().message, "cannot execute /tmp: Is a directory");
  EXPECT_EQ(launch(2, {"/etc/passwd"}).outcome.error().code, ErrorCode::not_found);
}

// What the kernel alone can refuse, a file without a format, is an error with path and reason.
TEST(Launch, WhatTheKernelCannotExecuteIsNamed) {
  const ScratchFolder folder;
  const std::string path = folder.write("no_format", "\x01no program");
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  const auto launched = launch(2, {path});
  ASSERT_FALSE(launched.outcome);
  EXPECT_EQ(launched.outcome.error().message,
            "cannot execute " + path + " as rank 0: Exec format error");
}

/// Starts a launcher in a process of its own; what its ranks print goes into `pipe`.
pid_t launcher_process(std::vector<std::string> argv, Nanos grace, int pipe) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  LaunchOptions options;
  options.num_ranks = 2;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/bin:/bin"};
  options.kill_grace = grace;
  options.sink = [&](Rank, bool to_stderr, std::string_view line) {
    if (to_stderr) return;  // a shell says "Terminated" there
    const std::string text = std::string(line) + "\n";
    [[maybe_unused]] const auto n = ::write(pipe, text.data(), text.size());
  };
  const auto outcome = launch_local(options);
  ::_exit(outcome ? outcome->exit_status : 99);
}

std::vector<pid_t> read_pids(int pipe, std::size_t count) {
  std::vector<pid_t> pids;
  std::string line;
  for (char c = 0; pids.size() < count && ::read(pipe, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    pids.push_back(std::stoi(line));
    line.clear();
  }
  return pids;
}

bool ended(pid_t pid) {
  for (int i = 0; i < 400; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    if (text.empty() || text.find(") Z ") != std::string::npos) return true;
    ::usleep(5000);
  }
  return false;
}

class LaunchSignal : public ::testing::TestWithParam<int> {};
// A terminal that closes, Ctrl-C, Ctrl-\ and kill all end the ranks and what these started.
TEST_P(LaunchSignal, EndsTheRanksAndTheirChildren) {
  std::array<int, 2> out{};
  ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  FileDescriptor reading(out[0]), writing(out[1]);
  const pid_t launcher = launcher_process({"sh", "-c", "sleep 43 & echo $!; wait"},
                                          std::chrono::seconds(3), writing.get());
  const auto children = read_pids(reading.get(), 2);
  ASSERT_EQ(::kill(launcher, GetParam()), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher, &status, 0), launcher);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + GetParam());
  ASSERT_EQ(children.size(), 2u);
  for (const pid_t child : children) EXPECT_TRUE(ended(child)) << child;
}
INSTANTIATE_TEST_SUITE_P(Signals, LaunchSignal,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST(Launch, ASecondSignalEndsTheGrace) {
  std::array<int, 2> out{};
  ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  FileDescriptor reading(out[0]), writing(out[1]);
  const pid_t launcher = launcher_process(
      {"sh", "-c", "trap 'echo $$' INT TERM; echo $$; while :; do sleep 1 & wait $!; done"},
      std::chrono::seconds(40), writing.get());
  ASSERT_EQ(read_pids(reading.get(), 2).size(), 2u);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(launcher, SIGINT), 0);
  EXPECT_EQ(read_pids(reading.get(), 2).size(), 2u) << "the ranks have had their SIGTERM";
  ASSERT_EQ(::kill(launcher, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Output, OneRankAloneHasNoPrefix) {
  for (const auto& [num_ranks, expected] :
       {std::pair{1u, "a line\n"}, std::pair{2u, "[0] a line\n"}}) {
    ::testing::internal::CaptureStdout();
    RankOutput output(num_ranks);
    output(Rank{0}, false, "a line");
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), expected);
  }
}

// The first cause once; of what the other ranks say of it only their number.
TEST(Output, TheSameMessageOfManyRanksIsToldOnceAndCounted) {
  ::testing::internal::CaptureStderr();
  RankOutput output(80);
  output(Rank{0}, true, "engram: error: device 0: no memory");
  for (std::uint32_t r = 1; r < 80; ++r) {
    output(Rank{r}, true,
           fmt::format("engram: error: rank 0, which serves, was lost (rank {})", r));
  }
  for (const std::uint32_t r : {3u, 3u, 5u}) {
    output(Rank{r}, true, "engram: error: out of range");
    output(Rank{r}, true, "a stranger's line");
  }
  output.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "[0] engram: error: device 0: no memory\n"
            "[1] engram: error: rank 0, which serves, was lost (rank 1)\n"
            "[3] engram: error: out of range\n[3] a stranger's line\n"
            "[3] engram: error: out of range\n[3] a stranger's line\n"
            "[5] a stranger's line\n"
            "[78 more ranks] engram: error: rank 0, which serves, was lost (rank 1)\n"
            "[1 more rank] engram: error: out of range\n");
}

}  // namespace
}  // namespace engram::rendezvous
