// DCQCN on small fabrics: who is marked, how far senders slow, and that they come back.
#include <gtest/gtest.h>

#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

model::CongestionProfile dcqcn() {
  model::CongestionProfile p;
  p.mark_from = Bytes{5'000};
  p.mark_full = Bytes{200'000};
  p.mark_one_in = 100;
  p.gain_one_in = 256;
  p.notify_interval = 50us;
  p.alpha_interval = p.step_interval = 55us;
  p.step_bytes = Bytes{10'000'000};
  p.recovery_steps = 5;
  p.additive_rate = BytesPerSecond{5e6};
  p.hyper_rate = BytesPerSecond{50e6};
  return p;
}

FabricOptions options(Congestion congestion, std::uint32_t ranks) {
  FabricOptions o{.profile = plain_profile(), .topology = single_switch(ranks)};
  o.profile.network.buffer_per_lane = Bytes{256 * 1024};
  o.profile.congestion = dcqcn();
  o.congestion = congestion;
  return o;
}

// Ranks 1.. move 20 MB each into rank 0 (or rank 0 reads them); rank 1 moves `more` times as much.
struct Outcome {
  double micros = 0;
  CongestionCounters counters;
};
Outcome converge(Congestion congestion, RequestKind kind, std::uint32_t senders, int more = 1,
                 double steps = 1) {
  FabricOptions o = options(congestion, senders + 1);
  o.profile.congestion.additive_rate.value *= steps;
  o.profile.congestion.hyper_rate.value *= steps;
  Rig rig(std::move(o));
  constexpr std::uint64_t kEach = 64 * 1024;
  constexpr int kRequests = 320;
  std::uint64_t all = 0;
  const auto result =
      rig.run_until(kRequests * (senders + static_cast<std::uint64_t>(more) - 1), [&] {
        for (std::uint32_t s = 1; s <= senders; ++s) {
          const bool read = kind == RequestKind::read;
          const QpId qp = rig.qp(read ? 0 : s, read ? s : 0, 0, {.depth = 8192});
          for (int i = 0; i < kRequests * (s == 1 ? more : 1); ++i, ++all) {
            rig.fabric->post(qp, {.kind = kind, .bytes = kEach});
          }
          rig.fabric->ring(qp);
        }
      });
  EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : result.error().message);
  EXPECT_EQ(rig.client.completions, all);
  return {to_micros(rig.client.last_completion), rig.fabric->congestion()};
}

TEST(Dcqcn, IsOffByDefaultAndCountsNothing) {
  const FabricOptions usual{.profile = plain_profile(), .topology = single_switch(2)};
  EXPECT_EQ(usual.congestion, Congestion::none);
  const Outcome off = converge(Congestion::none, RequestKind::write, 4);
  EXPECT_EQ(off.counters.marked + off.counters.cuts + off.counters.longest_queue, 0u);
}

TEST(Dcqcn, SlowsWritersAndOwnersThatAreReadAlike) {
  for (const RequestKind kind : {RequestKind::write, RequestKind::read}) {
    const Outcome off = converge(Congestion::none, kind, 4);
    const Outcome on = converge(Congestion::dcqcn, kind, 4);
    EXPECT_GT(on.counters.marked, 0u) << name_of(kind);
    EXPECT_GE(on.counters.cuts, 4u) << name_of(kind);
    EXPECT_LT(on.counters.slowest.value, 50e9 / 4) << "below a fair share at times";
    // 80 MB over a port of 50 GB/s: the port is seldom idle.
    EXPECT_GE(on.micros, 4 * 320 * 65536 / 50e3);
    EXPECT_LE(on.micros, 1.15 * off.micros) << name_of(kind);
  }
}

TEST(Dcqcn, ASenderAloneIsNeverSlowed) {
  const Outcome off = converge(Congestion::none, RequestKind::write, 1);
  const Outcome on = converge(Congestion::dcqcn, RequestKind::write, 1);
  EXPECT_EQ(on.counters.cuts, 0u);
  EXPECT_EQ(on.micros, off.micros);
}

// Once the other is done, the last sender comes back to its port's rate by steps of additive_rate.
// Those of the publication (40 Mb/s, for 40 Gb/s links) are small beside 400 Gb/s; steps that are a
// thousand times as large bring it back at once.
TEST(Dcqcn, TheLastSenderRecoversAsFastAsItsSteps) {
  const auto last_part = [](double steps) {
    const double together = converge(Congestion::dcqcn, RequestKind::write, 2, 1, steps).micros;
    const double goes_on = converge(Congestion::dcqcn, RequestKind::write, 2, 6, steps).micros;
    return (goes_on - together) / (5 * 320 * 65536 / 50e3);
  };
  EXPECT_GT(last_part(1), 1.5) << "about half of the port for two milliseconds";
  EXPECT_LT(last_part(1000), 1.15);
  EXPECT_GE(last_part(1000), 0.8);
}

TEST(Dcqcn, IsTheSameEachTime) {
  const Outcome first = converge(Congestion::dcqcn, RequestKind::write, 3);
  const Outcome second = converge(Congestion::dcqcn, RequestKind::write, 3);
  EXPECT_EQ(first.micros, second.micros);
  EXPECT_EQ(first.counters.marked, second.counters.marked);
}

TEST(Dcqcn, NumbersThatCannotBeAreNamed) {
  auto engine = Engine::create({.ranks = 2});
  ASSERT_TRUE(engine.has_value());
  RecordingClient client;
  client.engine = engine->get();
  FabricOptions wrong = options(Congestion::dcqcn, 2);
  wrong.profile.congestion.step_interval = 0ns;
  const auto refused = Fabric::create(**engine, client, wrong);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("step_interval 0 ns"), std::string::npos)
      << refused.error().message;
  wrong.congestion = Congestion::none;
  EXPECT_TRUE(Fabric::create(**engine, client, wrong).has_value());
}

}  // namespace
}  // namespace engram::sim::testing
