#include "engram/rendezvous/rendezvous.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

#include "engram/rendezvous/secret.hpp"
#include "team.hpp"

namespace engram::rendezvous {
namespace {

using test::Gathered;
using test::impatient;
using test::run_team;

Block block_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Block(bytes.begin(), bytes.end());
}

// Every rank gets every rank's block, in rank order, whatever their sizes and the order of arrival.
RC_GTEST_PROP(Rendezvous, AllgatherGivesEveryRankEveryBlock, ()) {
  const auto num_ranks = *rc::gen::inRange<std::uint32_t>(1, 9);
  const auto sizes = *rc::gen::container<std::vector<std::size_t>>(
      num_ranks, rc::gen::inRange<std::size_t>(0, 5000));
  RC_CLASSIFY(num_ranks == 1, "one rank");
  std::vector<Block> expected;
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    Block block(sizes[r]);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(31 * r + i);
    expected.push_back(std::move(block));
  }
  Gathered<Result<std::vector<Block>>> got;
  run_team(num_ranks, {}, [&](Rank rank, Result<Rendezvous> joined) {
    if (!joined) return got.set(rank, tl::unexpected<Error>(joined.error()));
    got.set(rank, joined->allgather(expected[rank.value]));
  });
  RC_ASSERT(got.by_rank.size() == num_ranks);
  for (const auto& [rank, blocks] : got.by_rank) {
    RC_ASSERT(blocks.has_value());
    RC_ASSERT(*blocks == expected);
  }
}

// No rank leaves a barrier before the last has entered it, over many rounds.
TEST(Rendezvous, NoRankLeavesABarrierEarly) {
  constexpr std::uint32_t kRanks = 6;
  constexpr int kRounds = 50;
  std::array<std::atomic<int>, kRanks> entered{};
  std::atomic<int> early = 0;
  run_team(kRanks, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    for (int round = 1; round <= kRounds; ++round) {
      entered[rank.value] = round;
      const auto done = joined->barrier();
      ASSERT_TRUE(done) << done.error().message;
      for (const auto& other : entered) early += other < round;
    }
  });
  EXPECT_EQ(early, 0);
}

TEST(Rendezvous, BroadcastGivesTheRootsBlock) {
  run_team(5, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    for (std::uint32_t root = 0; root < 5; ++root) {
      const auto got =
          joined->broadcast(Rank{root}, block_of("from " + std::to_string(rank.value)));
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(*got, block_of("from " + std::to_string(root)));
    }
  });
}

// A failure on one rank is an error that names it on all, and the ranks can go on afterwards, also
// when the others arrive long after it.
TEST(Rendezvous, AFailureOnOneRankReachesAllAndTheSessionGoesOn) {
  std::atomic<int> told_early = 0;
  run_team(4, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    Result<void> mine;
    if (rank == Rank{2}) mine = fail(ErrorCode::unsupported, "no memory of kind X");
    if (rank != Rank{2}) {
      while (!joined->failure_pending()) std::this_thread::yield();
      ++told_early;
    }
    const auto all = joined->agree(mine);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::unsupported);
    EXPECT_EQ(all.error().message, "rank 2: no memory of kind X");
    const auto next = joined->agree({});
    EXPECT_TRUE(next) << next.error().message;
    EXPECT_FALSE(joined->failure_pending());
    EXPECT_TRUE(joined->barrier());
  });
  EXPECT_EQ(told_early, 3);
}

TEST(Rendezvous, ARankThatLeavesIsNamed) {
  std::atomic<int> told = 0;
  run_team(4, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    if (rank == Rank{3}) return;  // leaves in order, but too early
    const auto done = joined->barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::peer_lost);
    EXPECT_EQ(done.error().message, "rank 3 left before operation 0 (barrier)");
    EXPECT_EQ(joined->allgather({}).error(), done.error()) << "the session stays over";
    ++told;
  });
  EXPECT_EQ(told, 3);
}

TEST(Rendezvous, TheOperationDeadlineNamesTheRankNotSeen) {
  std::atomic<int> told = 0;
  Options options = impatient();
  options.start_limit = std::chrono::seconds(20);
  run_team(4, options, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    if (rank == Rank{1}) {
      while (!joined->failure_pending()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    const auto done = joined->barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::timed_out);
    EXPECT_EQ(done.error().message, "operation 0 (barrier): rank 1 of 4 not seen within 0.6 s");
    ++told;
  });
  EXPECT_EQ(told, 3);
}

TEST(Rendezvous, DifferentOperationsAreAnErrorOnAll) {
  std::atomic<int> told = 0;
  run_team(3, impatient(), [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    const Result<void> done = rank == Rank{1} ? joined->agree({}) : joined->barrier();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::invalid_argument) << done.error().message;
    EXPECT_NE(done.error().message.find("entered"), std::string::npos) << done.error().message;
    ++told;
  });
  EXPECT_EQ(told, 3);
}

TEST(Rendezvous, ABlockPastTheLimitIsRefusedHere) {
  Options options;
  options.max_block = Bytes{100};
  run_team(2, options, [&](Rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    const auto got = joined->allgather(Block(1000));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::out_of_range);
    EXPECT_TRUE(joined->allgather(Block(100)));
  });
}

TEST(Rendezvous, ManyRanksManyOperations) {
  constexpr std::uint32_t kRanks = 32;
  std::atomic<int> good = 0;
  run_team(kRanks, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const auto got = joined->allgather_value(rank.value * 1000 + i);
      ASSERT_TRUE(got) << got.error().message;
      for (std::uint32_t r = 0; r < kRanks; ++r) ASSERT_EQ((*got)[r], r * 1000 + i);
    }
    ++good;
  });
  EXPECT_EQ(good, kRanks);
}

RC_GTEST_PROP(Secret, ComparisonAgreesWithEquality, ()) {
  const auto a = *rc::gen::string<std::string>();
  const auto b = *rc::gen::element(a, *rc::gen::string<std::string>());
  RC_CLASSIFY(a == b, "equal");
  RC_ASSERT(equal_in_constant_time(a, b) == (a == b));
}

TEST(Secret, EveryOneIsNew) {
  EXPECT_EQ(random_secret().size(), 32u);
  EXPECT_NE(random_secret(), random_secret());
}

}  // namespace
}  // namespace engram::rendezvous
