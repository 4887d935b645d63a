#include "engram/rendezvous/handle_passing.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "engram/rendezvous/host.hpp"
#include "team.hpp"

namespace engram::rendezvous {
namespace {

using Method = HandlePassing::Method;

class HandlePassingBy : public ::testing::TestWithParam<Method> {};

// Rank r hands out r+1 memory files; what a peer reads through its copy is what r wrote.
TEST_P(HandlePassingBy, PeersReadWhatTheOwnerWrote) {
  constexpr std::uint32_t kRanks = 4;
  std::atomic<int> read = 0;
  test::run_team(kRanks, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    std::vector<FileDescriptor> files;
    std::vector<int> fds;
    for (std::uint32_t i = 0; i <= rank.value; ++i) {
      files.emplace_back(::memfd_create("engram-test", MFD_CLOEXEC));
      const std::uint32_t word = rank.value * 100 + i;
      ASSERT_EQ(::pwrite(files.back().get(), &word, sizeof(word), 0), ssize_t{sizeof(word)});
      fds.push_back(files.back().get());
    }
    auto got = exchange_handles(*joined, fds, {GetParam(), std::chrono::seconds(10)});
    ASSERT_TRUE(got) << got.error().message;
    files.clear();  // the copies live on
    ASSERT_EQ(got->size(), kRanks - 1);
    for (const auto& [peer, handles] : *got) {
      ASSERT_EQ(handles.size(), peer.value + 1);
      for (std::uint32_t i = 0; i < handles.size(); ++i) {
        std::uint32_t word = 0;
        ASSERT_EQ(::pread(handles[i].get(), &word, sizeof(word), 0), ssize_t{sizeof(word)});
        EXPECT_EQ(word, peer.value * 100 + i);
        ++read;
      }
    }
  });
  EXPECT_EQ(read, 3 * (1 + 2 + 3 + 4));
}

INSTANTIATE_TEST_SUITE_P(Methods, HandlePassingBy,
                         ::testing::Values(Method::automatic, Method::unix_socket, Method::pidfd));

TEST(HandlePassing, TooManyHandlesOnOneRankAreAnErrorOnAll) {
  std::atomic<int> told = 0;
  test::run_team(3, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    const std::vector<int> fds(rank == Rank{1} ? 65 : 0);
    const auto got = exchange_handles(*joined, fds);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message, "rank 1: 65 handles, at most 64");
    ++told;
  });
  EXPECT_EQ(told, 3);
}

TEST(HandlePassing, ABadDescriptorIsNamedOnAll) {
  std::atomic<int> told = 0;
  test::run_team(2, {}, [&](Rank rank, Result<Rendezvous> joined) {
    ASSERT_TRUE(joined) << joined.error().message;
    const int bad = 1'000'000;
    const auto got = exchange_handles(*joined, std::span(&bad, rank == Rank{1} ? 1u : 0u),
                                      {Method::automatic, std::chrono::milliseconds(500)});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::io);
    EXPECT_NE(got.error().message.find("rank"), std::string::npos) << got.error().message;
    ++told;
  });
  EXPECT_EQ(told, 2);
}

TEST(Host, OneProcessIsOnOneHost) {
  EXPECT_EQ(this_host(), this_host());
  EXPECT_NE(this_host().boot_id[0], '\0');
  EXPECT_NE(this_host().pid_namespace, 0u);
}

}  // namespace
}  // namespace engram::rendezvous
