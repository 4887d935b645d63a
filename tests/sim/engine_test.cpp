#include "engram/sim/engine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engram/sim/fork.hpp"

namespace engram::sim {
namespace {

std::unique_ptr<Engine> make_engine(EngineOptions options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.has_value());
  return std::move(*engine);
}

TEST(Engine, SleepsToThePicosecond) {
  auto engine = make_engine({.ranks = 3});
  std::vector<Picos> woken(3);
  const auto result = engine->run([&](Rank rank) {
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(engine->sleep_for(Picos{1 + rank.value}), Wake::timed_out);
    woken[rank.value] = engine->now();
  });
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(woken, (std::vector<Picos>{Picos{3}, Picos{6}, Picos{9}}));
}

// SimGrid's clock goes on from run to run; ours starts from zero each time.
TEST(Engine, SecondRunInTheProcessStartsFromZero) {
  for (int run = 0; run < 3; ++run) {
    auto engine = make_engine({.ranks = 2});
    EXPECT_EQ(engine->now(), Picos{0});
    const auto result = engine->run([&](Rank) {
      EXPECT_EQ(engine->sleep_for(Picos{654'416'651}), Wake::timed_out);
      EXPECT_EQ(engine->now(), Picos{654'416'651});
    });
    ASSERT_TRUE(result.has_value()) << result.error().message;
  }
}

TEST(Engine, SemaphoreWakesInOrderOfArrival) {
  auto engine = make_engine({.ranks = 3});
  const auto gate = engine->create_semaphore("gate");
  std::vector<std::uint32_t> order;
  const auto result = engine->run([&](Rank rank) {
    if (rank == Rank{0}) {
      EXPECT_EQ(engine->sleep_for(Picos{1000}), Wake::timed_out);
      engine->release(gate, 2);
      return;
    }
    EXPECT_EQ(engine->sleep_for(Picos{rank.value == 1 ? 20 : 10}), Wake::timed_out);
    EXPECT_EQ(engine->acquire(gate), Wake::acquired);
    EXPECT_EQ(engine->now(), Picos{1000});
    order.push_back(rank.value);
  });
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 1}));
}

TEST(Engine, AcquireForGivesUpAtItsLimitAndLeavesTheCountAlone) {
  auto engine = make_engine({.ranks = 2});
  const auto gate = engine->create_semaphore("gate");
  const auto result = engine->run([&](Rank rank) {
    if (rank == Rank{0}) {
      EXPECT_EQ(engine->acquire_for(gate, Picos{500}), Wake::timed_out);
      EXPECT_EQ(engine->now(), Picos{500});
      EXPECT_EQ(engine->acquire_for(gate, Picos{5000}), Wake::acquired);
      EXPECT_EQ(engine->now(), Picos{900});
    } else {
      EXPECT_EQ(engine->sleep_until(Picos{900}), Wake::timed_out);
      engine->release(gate);
    }
  });
  ASSERT_TRUE(result.has_value()) << result.error().message;
}

TEST(Engine, DeadlockNamesWhoWaitsForWhat) {
  auto engine = make_engine({.ranks = 3});
  const auto handle = engine->create_semaphore("the fetch of layer 1");
  const auto result = engine->run([&](Rank rank) {
    if (rank.value == 2) return;
    EXPECT_EQ(engine->acquire(handle), Wake::stopped);
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::deadlock);
  EXPECT_NE(result.error().message.find("rank 0 waits for the fetch of layer 1"),
            std::string::npos);
  EXPECT_NE(result.error().message.find("2 of 3 ranks wait"), std::string::npos)
      << result.error().message;
}

TEST(Engine, WatchdogEndsARunThatOnlySleeps) {
  auto engine = make_engine({.ranks = 1, .watchdog = Picos{1'000'000}});
  const auto result = engine->run([&](Rank) {
    while (engine->sleep_for(Picos{1000}) == Wake::timed_out) {
    }
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::timed_out);
  EXPECT_EQ(engine->now(), Picos{1'001'000});
}

TEST(Engine, AThrowingRankIsNamed) {
  auto engine = make_engine({.ranks = 2});
  const auto gate = engine->create_semaphore("gate");
  const auto result = engine->run([&](Rank rank) {
    if (rank == Rank{1}) throw std::runtime_error("no row");
    EXPECT_EQ(engine->acquire(gate), Wake::stopped);
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "rank 1 threw: no row");
}

TEST(Engine, RefusesNoRanksAndASecondEngine) {
  EXPECT_EQ(Engine::create({.ranks = 0}).error().code, ErrorCode::invalid_argument);
  auto engine = make_engine({.ranks = 1});
  EXPECT_EQ(Engine::create({.ranks = 1}).error().code, ErrorCode::invalid_argument);
}

TEST(RunForked, ReturnsBytesErrorsAndCrashes) {
  EXPECT_EQ(run_forked([]() -> Result<std::string> { return std::string(200'000, 'x'); })->size(),
            200'000u);
  const auto refused =
      run_forked([]() -> Result<std::string> { return fail(ErrorCode::wrong_bytes, "row ", 7); });
  EXPECT_EQ(refused.error(), (Error{ErrorCode::wrong_bytes, "row 7"}));
  const auto crashed = run_forked([]() -> Result<std::string> { std::abort(); });
  EXPECT_EQ(crashed.error().code, ErrorCode::internal);
  EXPECT_NE(crashed.error().message.find("signal 6"), std::string::npos) << crashed.error().message;
  const auto hung = run_forked(
      []() -> Result<std::string> {
        while (true) {
        }
      },
      std::chrono::milliseconds{50});
  EXPECT_EQ(hung.error().code, ErrorCode::timed_out);
}

}  // namespace
}  // namespace engram::sim
