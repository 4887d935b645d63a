// How a job's ranks meet: deadlines, refusals, strangers at the port, names that are not found.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "engram/rendezvous/rendezvous.hpp"
#include "team.hpp"

namespace engram::rendezvous {
namespace {

using test::Gathered;
using test::impatient;
using test::run_team;

TEST(StartUp, TheStartDeadlineNamesTheMissingRanks) {
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

TEST(StartUp, WithoutRankZeroTheOthersSayWhomTheyMiss) {
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

TEST(StartUp, AWrongSecretIsRefusedAndTheJobNamesIt) {
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

TEST(StartUp, AnotherJobAnotherCountAndATakenRankAreRefused) {
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
RC_GTEST_PROP(StartUp, StrangersDoNotDisturbAJob, ()) {
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
TEST(StartUp, IdleConnectionsKeepNoRankOut) {
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
TEST(StartUp, ARankThatWasHungUpOnComesAgain) {
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
TEST(StartUp, ARankZeroThatDiedEndsTheOthersAtOnce) {
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

TEST(StartUp, ANameThatIsNotFoundIsToldOnce) {
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

// The name service that answers for this host takes 1.3 s; see getaddrinfo below.
constexpr const char* kSlowHost = "slow-to-find.invalid";

TEST(StartUp, ASlowLookUpOfANameIsTold) {
  Identity identity;
  identity.rank = Rank{1};
  identity.num_ranks = 2;
  identity.host = kSlowHost;
  identity.port = 5;
  Options options = impatient();
  options.start_limit = std::chrono::milliseconds(1200);
  std::vector<std::string> said;
  options.say = [&](const std::string& text) { said.push_back(text); };
  const auto joined = Rendezvous::join(identity, options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::timed_out);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("rank 1 still looks up the name slow-to-find.invalid"), std::string::npos)
      << said[0];

  identity.rank = Rank{0};
  EXPECT_FALSE(Rendezvous::join(identity, options));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1], "rank 0 still looks up its own name slow-to-find.invalid");
}

}  // namespace
}  // namespace engram::rendezvous

/// In the place of libc's: slow for one name, else the same.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  if (node != nullptr && std::strcmp(node, engram::rendezvous::kSlowHost) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    return EAI_NONAME;
  }
  using Real = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  return reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "getaddrinfo"))(node, service, hints, found);
}
