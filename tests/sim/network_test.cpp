// Lanes, credits, routes and background traffic, each with its expected figure.
#include <gtest/gtest.h>

#include <map>

#include "engram/model/ecmp.hpp"
#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

constexpr std::uint64_t kPacket = 4096;

FabricOptions lanes_3_to_1(std::uint32_t ranks) {
  FabricOptions options{.profile = plain_profile(), .topology = single_switch(ranks)};
  options.profile.network.buffer_per_lane = 64 * kKiB;
  options.lanes.weights = {3, 1};
  options.lanes.service_level[1] = 1;
  return options;
}

struct Stream {
  std::uint32_t from, to, service_level;
  std::uint64_t messages;
};

// Writes of 4 KiB on one QP a stream, all started at once; when each stream had completed (us).
std::vector<double> run_streams(Rig& rig, const std::vector<Stream>& streams) {
  std::vector<std::unique_ptr<Feeder>> feeders;
  std::vector<std::uint64_t> left;
  std::vector<double> ends(streams.size());
  std::map<std::uint32_t, std::size_t> by_qp;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Stream& s = streams[i];
    const QpId qp =
        rig.qp(s.from, s.to, static_cast<std::uint32_t>(i), {.service_level = s.service_level});
    by_qp[qp.value] = i;
    left.push_back(s.messages);
    total += s.messages;
    feeders.push_back(std::make_unique<Feeder>(
        rig, std::vector{qp}, Request{.kind = RequestKind::write, .bytes = kPacket}, s.messages));
  }
  rig.client.on_slot = [&](QpId qp) { feeders[by_qp[qp.value]]->refill(qp); };
  rig.client.on_completed = [&](QpId qp, const Request&, Status) {
    const std::size_t i = by_qp[qp.value];
    if (--left[i] == 0) ends[i] = to_micros(rig.engine->now());
  };
  const auto result = rig.run_until(total, [&] {
    for (auto& feeder : feeders) feeder->start();
  });
  EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : result.error().message);
  return ends;
}

double rate(const Stream& stream, double micros) {
  return static_cast<double>(stream.messages * kPacket) / micros / 1e3;
}

// 75 MB of weight 3 beside 50 MB of weight 1 on 50 GB/s: 37.5 and 12.5 GB/s until 2 ms, then the
// second alone with everything until 2.5 ms.
TEST(Lanes, WeightsShareThreeToOneAndOneAloneHasAll) {
  Rig rig(lanes_3_to_1(3));
  const auto ends =
      run_streams(rig, {{0, 1, 0, 75'000'000 / kPacket}, {0, 2, 1, 50'000'000 / kPacket}});
  EXPECT_NEAR(ends[0], 2000, 20);
  EXPECT_NEAR(ends[1], 2500, 25);
}

TEST(Lanes, EachAloneHasTheWholeLink) {
  for (const std::uint32_t level : {0u, 1u}) {
    Rig rig(lanes_3_to_1(2));
    const Stream only{0, 1, level, 10'000};
    EXPECT_NEAR(rate(only, run_streams(rig, {only})[0]), 50, 0.5) << "service level " << level;
  }
}

// Seven ranks write to rank 7, so rank 0's part of that moves at 50/7 = 7.1 GB/s. A victim beside
// it (0 -> 1) is stuck behind it on the same lane, and has the rest of the link on another.
struct Incast {
  std::vector<Stream> streams;
  explicit Incast(std::uint32_t victim_level) {
    for (std::uint32_t r = 0; r < 7; ++r) streams.push_back({r, 7, 0, 4000});
    streams.push_back({0, 1, victim_level, 3000});
  }
};

TEST(Lanes, AHotReceiverHoldsUpItsOwnLane) {
  FabricOptions options = lanes_3_to_1(8);
  options.lanes.weights = {1, 1};
  Rig rig(std::move(options));
  const Incast incast(0);
  EXPECT_NEAR(rate(incast.streams.back(), run_streams(rig, incast.streams).back()), 7.14, 0.8);
}

TEST(Lanes, AndNoOther) {
  FabricOptions options = lanes_3_to_1(8);
  options.lanes.weights = {1, 1};
  Rig rig(std::move(options));
  const Incast incast(1);
  EXPECT_NEAR(rate(incast.streams.back(), run_streams(rig, incast.streams).back()), 42.9, 1.5);
}

// Four streams leaf to leaf over four spines of the links' own rate.
std::vector<Stream> across(std::uint32_t messages) {
  return {{0, 4, 0, messages}, {1, 5, 0, messages}, {2, 6, 0, messages}, {3, 7, 0, messages}};
}

std::uint32_t spines_used(const Rig& rig) {
  std::uint32_t used = 0;  // links 16, 18, 20, 22 lead from leaf 0 to the spines
  for (std::uint32_t s = 0; s < 4; ++s) used += rig.fabric->link_counters({16 + 2 * s}).packets > 0;
  return used;
}

TEST(Routing, HashesCollideAndAdaptiveSpreads) {
  const auto slowest = [](Routing routing, std::uint32_t& used) {
    FabricOptions options{
        .profile = plain_profile(), .topology = leaf_spine(2, 4, 4), .routing = routing};
    Rig rig(std::move(options));
    const auto ends = run_streams(rig, across(4000));
    used = spines_used(rig);
    return *std::max_element(ends.begin(), ends.end());
  };
  // The model's own warning names the same collisions.
  const auto topology = leaf_spine(2, 4, 4);
  std::vector<model::Flow> flows;
  for (std::uint32_t i = 0; i < 4; ++i) flows.push_back({{i}, {i + 4}, {i}, 0, 50e9});
  const auto collisions = model::ecmp_collisions(topology, flows, 0);
  ASSERT_FALSE(collisions.empty());
  std::uint32_t hashed = 0, adaptive = 0;
  const double with_hash = slowest(Routing::ecmp, hashed);
  const double with_adaptive = slowest(Routing::adaptive, adaptive);
  const double alone = 4000 * kPacket / 50e3;
  EXPECT_LT(hashed, 4u) << "this seed shows no collision";
  EXPECT_NEAR(with_hash / alone, collisions[0].load, 0.1);
  EXPECT_EQ(adaptive, 4u);
  EXPECT_NEAR(with_adaptive, alone, 0.06 * alone);
}

TEST(Routing, AQpKeepsToItsPlane) {
  model::Profile p = plain_profile();
  p.nic.ports = 2;
  std::vector<model::Vertex> vertices;
  std::vector<model::Link> links;
  for (std::uint32_t plane = 0; plane < 2; ++plane) {
    const auto first = static_cast<std::uint32_t>(vertices.size());
    for (std::uint32_t r = 0; r < 2; ++r) {
      vertices.push_back({"nic", model::VertexKind::nic, plane, Rank{r}});
    }
    vertices.push_back({"leaf", model::VertexKind::leaf, plane, std::nullopt});
    for (std::uint32_t r = 0; r < 2; ++r) {
      links.push_back({"up", {first + r}, {first + 2}, gigabytes_per_second(25), 500ns});
      links.push_back({"down", {first + 2}, {first + r}, gigabytes_per_second(25), 500ns});
    }
  }
  Rig rig({.profile = p, .topology = *model::Topology::create(vertices, links)});
  const auto ends = run_streams(rig, {{0, 1, 0, 4000}, {0, 1, 0, 4000}});
  EXPECT_NEAR(ends[0], 4000 * kPacket / 25e3, 10);
  EXPECT_EQ(rig.fabric->link_counters({0}).packets, rig.fabric->link_counters({4}).packets);
}

TEST(Background, TakesItsShareOfALinkAndEndsWithTheRun) {
  FabricOptions options{.profile = plain_profile(), .topology = single_switch(3)};
  options.background = {{.from = {2}, .to = {1}, .rate = gigabytes_per_second(25)}};
  Rig rig(std::move(options));
  const Stream stream{0, 1, 0, 40'000};  // its first window still finds the link empty
  EXPECT_NEAR(rate(stream, run_streams(rig, {stream})[0]), 25, 1.5);
}

TEST(Background, DoesNotHideADeadlock) {
  FabricOptions options{.profile = plain_profile(), .topology = single_switch(3)};
  options.background = {{.from = {2}, .to = {1}, .rate = gigabytes_per_second(25)}};
  Rig rig(std::move(options));
  const auto result = rig.run_until(2, [&] {
    rig.fabric->post(rig.qp(0, 1), {.bytes = 64});
    rig.fabric->ring(rig.qp(0, 1));
  });
  EXPECT_EQ(result.error().code, ErrorCode::deadlock);
}

// The NIC holds 100 connections. Used in turn, more of them miss more often, without a cliff.
TEST(ConnectionCache, ManyConnectionsSlowANicGradually) {
  model::Profile p = plain_profile();
  p.nic.write_rate = millions_per_second(200);
  p.nic.cache = {.capacity = 100, .requester_miss = 10ns, .responder_miss = 10ns};
  const auto rate_with = [&](std::uint32_t qps) {
    Rig rig({.profile = p, .topology = single_switch(9)});
    std::vector<QpId> all;
    for (std::uint32_t i = 0; i < qps; ++i) all.push_back(rig.qp(0, 1 + i % 8, i));
    const std::uint64_t total = 100 * qps;
    return static_cast<double>(total) /
           to_micros(feed(rig, all, {.kind = RequestKind::write_inline, .bytes = 8}, total, 1));
  };
  const double fits = rate_with(90), more = rate_with(150), most = rate_with(800);
  EXPECT_GT(fits, 180);
  EXPECT_LT(more, 0.85 * fits);
  EXPECT_LT(most, more);
  EXPECT_NEAR(most, 200 / 3.0, 12);  // nearly each request pays 5 + 10 ns
}

}  // namespace
}  // namespace engram::sim::testing
