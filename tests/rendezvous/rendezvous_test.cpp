#include "engram/rendezvous/rendezvous.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>

#include "engram/rendezvous/secret.hpp"
#include "team.hpp"

namespace engram::rendezvous {
namespace {

using test::impatient;
using test::run_team;

Block block_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Block(bytes.begin(), bytes.end());
}

/// Collects what the ranks saw, whichever thread they run on.
template <class T>
struct Gathered {
  std::mutex mutex;
  std::map<std::uint32_t, T> by_rank;
  void set(Rank rank, T value) {
    const std::lock_guard lock(mutex);
    by_rank.insert_or_assign(rank.value, std::move(value));
  }
};

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

TEST(Rendezvous, TheStartDeadlineNamesTheMissingRanks) {
  std::atomic<int> checked = 0;
  run_team(5, impatient(),
           [&](Rank, Result<Rendezvous> joined) {
             ASSERT_FALSE(joined);
             EXPECT_EQ(joined.error().code, ErrorCode::timed_out);
             EXPECT_NE(joined.error().message.find("ranks 1, 3 of 5 did not join within 0.6 s"),
                       std::string::npos)
                 << joined.error().message;
             ++checked;
           },
           {}, {1, 3});
  EXPECT_EQ(checked, 3);
}

TEST(Rendezvous, WithoutRankZeroTheOthersSayWhomTheyMiss) {
  Identity identity;
  identity.rank = Rank{1};
  identity.num_ranks = 2;
  {
    const auto listener = listen_on_loopback();
    ASSERT_TRUE(listener);
    identity.port = listener->port;  // closed again: nobody listens
  }
  const auto joined = Rendezvous::join(identity, impatient());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::timed_out);
  EXPECT_NE(joined.error().message.find("rank 1 cannot reach rank 0 at 127.0.0.1:"),
            std::string::npos)
      << joined.error().message;
}

TEST(Rendezvous, AWrongSecretIsRefusedAndTheJobNamesIt) {
  Gathered<Error> errors;
  run_team(
      3, impatient(),
      [&](Rank rank, Result<Rendezvous> joined) {
        ASSERT_FALSE(joined);
        errors.set(rank, joined.error());
      },
      [](Identity& identity) {
        if (identity.rank == Rank{2}) identity.secret = "a secreT";
      });
  ASSERT_EQ(errors.by_rank.size(), 3u);
  EXPECT_EQ(errors.by_rank[2].code, ErrorCode::invalid_argument);
  EXPECT_NE(errors.by_rank[2].message.find("the secret differs"), std::string::npos)
      << errors.by_rank[2].message;
  EXPECT_NE(errors.by_rank[0].message.find("rank 2 of 3 did not join"), std::string::npos)
      << errors.by_rank[0].message;
  EXPECT_NE(errors.by_rank[0].message.find("the secret differs"), std::string::npos);
}

TEST(Rendezvous, AnotherJobAnotherCountAndATakenRankAreRefused) {
  const auto refusal_of = [](const std::function<void(Identity&)>& change) {
    std::string text;
    std::mutex mutex;
    run_team(
        3, impatient(),
        [&](Rank, Result<Rendezvous> joined) {
          if (joined || joined.error().code == ErrorCode::timed_out) return;
          const std::lock_guard lock(mutex);
          text = joined.error().message;
        },
        [&](Identity& identity) {
          if (identity.rank != Rank{2}) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(150));
          change(identity);
        });
    return text;
  };
  EXPECT_NE(refusal_of([](Identity& i) {
              i.job_id = "other";
            }).find("job 'other' asked at the address of job 'test-job'"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Identity& i) {
              i.num_ranks = 4;
            }).find("rank 2 counts 4 ranks, rank 0 counts 3"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Identity& i) { i.rank = Rank{1}; }).find("rank 1 has already joined"),
            std::string::npos);
}

// Whatever bytes a stranger sends, the job starts and works.
RC_GTEST_PROP(Rendezvous, StrangersDoNotDisturbAJob, ()) {
  const auto noise =
      *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
  const auto valid_header = *rc::gen::arbitrary<bool>();
  std::atomic<int> good = 0;
  std::atomic<std::uint16_t> port = 0;
  const auto disturb = [&] {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      std::vector<std::uint8_t> bytes;
      if (valid_header)
        bytes = {0x45, 0x47, 0x52, 0x56, 1, 0, 1, 0, 0, 0, 0, 0,
                 0,    0,    0,    0,    8, 0, 0, 0, 0, 0, 0, 0};
      bytes.insert(bytes.end(), noise.begin(), noise.end());
      [[maybe_unused]] const auto n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    ::close(fd);
  };
  run_team(
      3, {},
      [&](Rank rank, Result<Rendezvous> joined) {
        if (!joined) return;
        if (rank == Rank{1}) disturb();
        good += joined->barrier().has_value() && joined->allgather_value(rank).has_value();
      },
      [&](Identity& identity) {
        port = identity.port;
        if (identity.rank == Rank{2}) disturb();
      });
  RC_ASSERT(good == 3);
}

FileDescriptor idle_connection(std::uint16_t port) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// More silent connections than rank 0 keeps: the oldest are closed, the ranks still join at once.
TEST(Rendezvous, IdleConnectionsKeepNoRankOut) {
  std::vector<FileDescriptor> idle;
  std::atomic<int> good = 0;
  const auto begin = std::chrono::steady_clock::now();
  run_team(
      2, {},
      [&](Rank, Result<Rendezvous> joined) {
        ASSERT_TRUE(joined) << joined.error().message;
        good += joined->barrier().has_value();
      },
      [&](Identity& identity) {
        if (identity.rank != Rank{1}) return;
        for (int i = 0; i < 100; ++i) idle.push_back(idle_connection(identity.port));
      });
  EXPECT_EQ(good, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  std::byte got{};
  EXPECT_EQ(::recv(idle.front().get(), &got, 1, 0), 0) << "the oldest is closed";
}

// A connection that ends before rank 0 has answered is made again.
TEST(Rendezvous, ARankThatWasHungUpOnComesAgain) {
  auto listener = listen_on_loopback();
  ASSERT_TRUE(listener);
  Result<Rendezvous> other = fail(ErrorCode::internal, "not run");
  std::thread rank1(
      [&] { other = Rendezvous::join(test::identity_of(1, 2, *listener), impatient()); });
  for (int i = 0; i < 2; ++i) {  // hung up twice, as by a crowded port
    FileDescriptor first(::accept(listener->socket.get(), nullptr, nullptr));
    EXPECT_TRUE(first.valid());
  }
  Identity zero = test::identity_of(0, 2, *listener);
  zero.listen_fd = listener->socket.release();
  const auto joined = Rendezvous::join(zero, impatient());
  rank1.join();
  EXPECT_TRUE(joined) << joined.error().message;
  EXPECT_TRUE(other) << other.error().message;
}

// Rank 0 that is gone is not waited for: the port refuses the next attempt.
TEST(Rendezvous, ARankZeroThatDiedEndsTheOthersAtOnce) {
  auto listener = listen_on_loopback();
  ASSERT_TRUE(listener);
  Result<Rendezvous> other = fail(ErrorCode::internal, "not run");
  const auto begin = std::chrono::steady_clock::now();
  std::thread rank1([&] { other = Rendezvous::join(test::identity_of(1, 2, *listener), {}); });
  {
    FileDescriptor first(::accept(listener->socket.get(), nullptr, nullptr));
    listener->socket = FileDescriptor();
  }
  rank1.join();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::peer_lost);
  EXPECT_NE(other.error().message.find("rank 0, which serves, was lost"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Rendezvous, ANameThatIsNotFoundIsToldOnce) {
  Identity identity;
  identity.rank = Rank{1};
  identity.num_ranks = 2;
  identity.host = "no-such-host.invalid";
  identity.port = 5;
  Options options = impatient();
  std::vector<std::string> said;
  options.say = [&](const std::string& text) { said.push_back(text); };
  EXPECT_FALSE(Rendezvous::join(identity, options));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("rank 1 cannot reach rank 0 at no-such-host.invalid:5"), std::string::npos)
      << said[0];
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
