// What every backend's context operations must do, straight on the wire: no fetch in between.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <vector>

#include "engram/host/host_gin.hpp"
#include "engram/host/host_transport.hpp"
#include "support/backends.hpp"
#include "support/gen.hpp"

namespace engram::test {
namespace {

using core::Ring;
using core::Team;
using host::HostGin;
using host::HostTransport;
using host::HostWarp;
using host::Kernel;
using host::Warp;
using host::Window;

constexpr Nanos kLimit = std::chrono::seconds{10};
constexpr core::Deadline kDeadline{10'000'000'000ull};
/// Free space in the buffer window.
constexpr std::uint64_t kFree = core::kWorkspaceBytes.count;

class GinConformance : public testing::TestWithParam<BackendKind> {
 protected:
  /// Runs `body` as one warp on every rank, with windows open; then `check` on every rank.
  static Result<core::BackendStats> on_every_rank(
      const FetchCase& c, const std::function<void(const HostGin&, HostWarp&, Rank, Kernel&)>& body,
      const std::function<Result<void>(core::Transport&)>& check) {
    auto backend = GetParam().make(c);
    return backend->run([&](core::Transport& transport) -> Result<void> {
      auto layout = core::WindowLayout::create(transport.grid(), core::Placement::gpu, Bytes{65536},
                                               Bytes{65536});
      if (!layout) return tl::unexpected(layout.error());
      // These bodies post up to 41 requests before they ring.
      const core::QueueShape queues{c.qps, 64};
      if (auto opened = transport.open(*layout, queues, std::nullopt); !opened) return opened;
      auto& host = dynamic_cast<HostTransport&>(transport);
      auto kernel = std::make_shared<Kernel>();
      Kernel* shared = kernel.get();
      Kernel launch;
      launch.body = [&, shared](Warp& warp) {
        HostWarp group(warp);
        body(HostGin(warp, 0), group, warp.rank(), *shared);
      };
      if (auto ran = host.run(std::move(launch), kLimit); !ran) return ran;
      if (auto all = transport.barrier(kLimit); !all) return all;
      return check(transport);
    });
  }

  static std::uint64_t load(const core::Transport& transport, std::uint64_t offset) {
    std::uint64_t value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    const auto read = transport.read_buffer(Bytes{offset}, bytes);
    EXPECT_TRUE(read) << read.error().message;
    return value;
  }
};

// Everyone writes its rank into everyone's slot, by value and by put; adds reach their sum.
TEST_P(GinConformance, PutsAddsAndSignalsArrive) {
  EXPECT_TRUE(rc::check("puts, adds, signals", [] {
    FetchCase c = *gen::fetch_case();
    const std::uint32_t ranks = c.num_ranks();
    const auto stats = on_every_rank(
        c,
        [&](const HostGin& gin, HostWarp& warp, Rank self, Kernel&) {
          warp.for_lanes(ranks, [&](std::uint32_t peer) {
            gin.put_value(Team::world, peer, Window::buffer, kFree + self.value * 8,
                          0x1000 + self.value, Ring::later);
            gin.remote_add(Team::world, peer, Window::buffer, kFree + 8192, self.value + 1,
                           Ring::later);
            gin.signal(Team::world, peer, core::SignalId{ranks}, 1);
          });
          EXPECT_EQ(gin.wait_signal(core::SignalId{ranks}, ranks, kDeadline), core::WaitStatus::ok);
          EXPECT_EQ(gin.read_signal(core::SignalId{ranks}), ranks);
          EXPECT_EQ(gin.flush(kDeadline), core::WaitStatus::ok);
          // What came by value goes on by put: our column into a second matrix at every peer.
          warp.for_lanes(ranks, [&](std::uint32_t peer) {
            gin.put(Team::world, peer, Window::buffer, kFree + 16384 + self.value * 8,
                    Window::buffer, kFree + self.value * 8, 8, Ring::now);
          });
          EXPECT_EQ(gin.flush(kDeadline), core::WaitStatus::ok);
        },
        [&](core::Transport& transport) -> Result<void> {
          for (std::uint32_t r = 0; r < ranks; ++r) {
            EXPECT_EQ(load(transport, kFree + r * 8), 0x1000 + r);
            EXPECT_EQ(load(transport, kFree + 16384 + r * 8), 0x1000 + r);
          }
          EXPECT_EQ(load(transport, kFree + 8192), ranks * (ranks + 1ull) / 2);
          return {};
        });
    if (!stats) RC_FAIL(stats.error().message);
    RC_ASSERT(stats->completions == stats->requests);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

// A signal comes after the puts that its context sent to that peer before.
TEST_P(GinConformance, SignalsFollowTheirPuts) {
  EXPECT_TRUE(rc::check("data before signal", [] {
    FetchCase c = *gen::fetch_case();
    c.num_rdma = *rc::gen::inRange<std::uint32_t>(2, 5);
    const std::uint32_t ranks = c.num_ranks();
    std::vector<std::uint64_t> seen(ranks, 0);
    const auto stats = on_every_rank(
        c,
        [&](const HostGin& gin, HostWarp& warp, Rank self, Kernel&) {
          const std::uint32_t next = (self.value + 1) % ranks;
          for (std::uint32_t i = 0; i < 40; ++i) {
            gin.put_value(Team::world, next, Window::buffer, kFree + i * 8, i + 1, Ring::later);
          }
          gin.signal(Team::world, next, core::SignalId{ranks}, 1);
          EXPECT_EQ(gin.wait_signal(core::SignalId{ranks}, 1, kDeadline), core::WaitStatus::ok);
          // Read at once, by this warp: a barrier first would hide a late put.
          for (std::uint32_t i = 0; i < 40; ++i) {
            auto* word =
                reinterpret_cast<std::int32_t*>(gin.local_pointer(Window::buffer, kFree + i * 8));
            seen[self.value] += static_cast<std::uint64_t>(warp.load_word(word));
          }
        },
        [](core::Transport&) -> Result<void> { return {}; });
    if (!stats) RC_FAIL(stats.error().message);
    for (const std::uint64_t sum : seen) RC_ASSERT(sum == 40u * 41u / 2u);
  }));
}

// No rank leaves a barrier before the last has entered, on NVLink, RDMA and mixed domains.
TEST_P(GinConformance, BarriersAreGlobal) {
  EXPECT_TRUE(rc::check("barrier", [] {
    FetchCase c = *gen::fetch_case();
    const std::uint32_t ranks = c.num_ranks();
    const auto rounds = *rc::gen::inRange<std::uint32_t>(1, 9);  // both words, both signs
    std::vector<std::uint32_t> entered(ranks, 0);
    auto backend = GetParam().make(c);
    const auto stats = backend->run([&](core::Transport& transport) -> Result<void> {
      auto layout =
          core::WindowLayout::create(transport.grid(), c.placement(), Bytes{64}, Bytes{64});
      if (!layout) return tl::unexpected(layout.error());
      if (auto opened = transport.open(*layout, {1, 64}, std::nullopt); !opened) return opened;
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        entered[transport.rank().value] = round;
        if (auto all = transport.barrier(kLimit); !all) return all;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          if (entered[r] >= round) continue;
          return fail(ErrorCode::wrong_bytes, "rank ", transport.rank().value, " left barrier ",
                      round, " before rank ", r, " had entered");
        }
      }
      return {};
    });
    if (!stats) RC_FAIL(stats.error().message);
  }));
}

TEST_P(GinConformance, AMissingRankIsNamed) {
  FetchCase c;
  c.num_rdma = 3;
  auto backend = GetParam().make(c);
  const auto stats = backend->run([&](core::Transport& transport) -> Result<void> {
    auto layout =
        core::WindowLayout::create(transport.grid(), core::Placement::gpu, Bytes{64}, Bytes{64});
    if (auto opened = transport.open(*layout, {1, 64}, std::nullopt); !opened) return opened;
    if (transport.rank() == Rank{1}) return {};  // never comes
    return transport.barrier(std::chrono::milliseconds{5});
  });
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::timed_out) << stats.error().message;
  EXPECT_NE(stats.error().message.find("for rank 1"), std::string::npos) << stats.error().message;
}

INSTANTIATE_TEST_SUITE_P(Backends, GinConformance, testing::ValuesIn(backends()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace engram::test
