#include "guarded_call.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "team.hpp"

namespace engram::nccl {
namespace {

using rendezvous::Rendezvous;

TEST(GuardedCall, ARankThatIsNotReadyKeepsAllOutOfTheCall) {
  std::atomic<int> calls = 0, told = 0;
  rendezvous::test::run_team(3, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    const Result<void> ready =
        rank == Rank{1} ? Result<void>(fail(ErrorCode::unsupported, "no memory")) : Result<void>{};
    const auto done = run_guarded(*joined, ready,
                                  {"call",
                                   -1,
                                   std::chrono::seconds(5),
                                   [&]() -> Result<void> {
                                     ++calls;
                                     return {};
                                   },
                                   {}});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "rank 1: no memory");
    ++told;
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(told, 3);
}

// Ranks 0 and 2 sit in a call that only rank 1's part would end; rank 1 fails and never enters it.
TEST(GuardedCall, AFailedRankFreesTheOthersFromTheirCall) {
  std::atomic<int> told = 0, aborted = 0;
  const auto begin = std::chrono::steady_clock::now();
  rendezvous::test::run_team(3, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    auto stop = std::make_shared<std::atomic<bool>>(false);
    GuardedCall call{"ncclSomething", std::nullopt, std::chrono::seconds(30),
                     [stop, rank]() -> Result<void> {
                       if (rank == Rank{1}) return fail(ErrorCode::internal, "NCCL: system error");
                       while (!*stop) std::this_thread::yield();
                       return fail(ErrorCode::internal, "aborted");
                     },
                     [stop, &aborted] {
                       *stop = true;
                       ++aborted;
                     }};
    const auto done = run_guarded(*joined, {}, std::move(call));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "rank 1: NCCL: system error");
    EXPECT_TRUE(joined->agree({})) << "the session goes on";
    ++told;
  });
  EXPECT_EQ(told, 3);
  EXPECT_EQ(aborted, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(GuardedCall, ADeadlineIsNamed) {
  rendezvous::test::run_team(2, {}, [&](Rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    auto stop = std::make_shared<std::atomic<bool>>(false);
    const auto done = run_guarded(*joined, {},
                                  {"ncclSomething", std::nullopt, std::chrono::milliseconds(200),
                                   [stop]() -> Result<void> {
                                     while (!*stop) std::this_thread::yield();
                                     return {};
                                   },
                                   [stop] { *stop = true; }});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::timed_out);
    EXPECT_NE(done.error().message.find("ncclSomething did not return within 0.2 s"),
              std::string::npos)
        << done.error().message;
  });
}

}  // namespace
}  // namespace engram::nccl
