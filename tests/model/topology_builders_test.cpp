#include "engram/model/topology_builders.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "engram/model/profile_file.hpp"

namespace engram::model {
namespace {

Profile h100() { return *load_profile("h100-cx7-400", default_profile_dirs()); }

Topology built(const Result<Topology>& topology) {
  EXPECT_TRUE(topology) << topology.error().message;
  return topology ? *topology : *Topology::create({}, {});
}

std::uint32_t count(const Topology& t, VertexKind kind) {
  return static_cast<std::uint32_t>(std::ranges::count(t.vertices(), kind, &Vertex::kind));
}

/// Links on the way between two ranks of plane 0, always the first next hop.
std::size_t distance(const Topology& t, std::uint32_t from, std::uint32_t to) {
  VertexIndex at = *t.nic(Rank{from}, 0);
  const VertexIndex end = *t.nic(Rank{to}, 0);
  std::size_t hops = 0;
  for (; at != end; ++hops) at = t.links()[t.next_hops(at, end)[0].value].to;
  return hops;
}

TEST(Builders, OneSwitchIsOneHopApart) {
  const auto t = built(single_switch({.nodes = 2, .gpus_per_node = 8}, h100()));
  EXPECT_EQ(t.num_ranks(), 16u);
  EXPECT_EQ(t.links().size(), 32u);
  EXPECT_EQ(distance(t, 0, 15), 2u);
  const Link& up = t.links()[t.next_hops(*t.nic(Rank{0}, 0), *t.nic(Rank{9}, 0))[0].value];
  EXPECT_EQ(up.name, "nic0->switch");
  EXPECT_EQ(up.rate, gigabytes_per_second(50));
  EXPECT_EQ(up.latency, Nanos{250});
  const Link& down = t.links()[t.next_hops(up.to, *t.nic(Rank{9}, 0))[0].value];
  EXPECT_EQ(down.latency, Nanos{50});
}

TEST(Builders, PlanesShareTheNicsBandwidth) {
  const auto t =
      built(leaf_spine({.nodes = 4, .gpus_per_node = 2, .planes = 4, .spines = 2}, h100()));
  EXPECT_EQ(t.num_planes(), 4u);
  for (const Link& link : t.links()) EXPECT_EQ(link.rate, gigabytes_per_second(12.5));
  EXPECT_EQ(t.vertices()[t.nic(Rank{3}, 2)->value].name, "p2.nic3");
}

TEST(Builders, AFatTreeKeepsANodeBelowOneLeafAndRailsDoNot) {
  const Cluster c{.nodes = 4, .gpus_per_node = 8, .spines = 8, .nodes_per_leaf = 2};
  const auto tree = built(leaf_spine(c, h100()));
  EXPECT_EQ(count(tree, VertexKind::leaf), 2u);
  EXPECT_EQ(distance(tree, 0, 7), 2u);   // same node
  EXPECT_EQ(distance(tree, 0, 15), 2u);  // same leaf
  EXPECT_EQ(distance(tree, 0, 16), 4u);
  const auto rail = built(rails(c, h100()));
  EXPECT_EQ(count(rail, VertexKind::leaf), 16u);
  EXPECT_EQ(distance(rail, 0, 7), 4u);   // same node, other rail
  EXPECT_EQ(distance(rail, 0, 8), 2u);   // same rail
  EXPECT_EQ(distance(rail, 0, 16), 4u);  // same rail, other pod
}

TEST(Builders, TheSpecificationsExampleClusterBuilds) {
  const auto t = built(rails({.nodes = 2, .gpus_per_node = 8, .spines = 4}, h100()));
  EXPECT_EQ(count(t, VertexKind::leaf), 8u);
  EXPECT_EQ(count(t, VertexKind::spine), 4u);
  EXPECT_EQ(distance(t, 3, 11), 2u);
}

TEST(Builders, MemoryNodesAreRanksAfterTheGpus) {
  const Cluster c{.nodes = 2, .gpus_per_node = 4, .memory_nodes = 3, .spines = 2};
  for (auto* build : {&single_switch, &leaf_spine, &rails}) {
    const auto t = built((*build)(c, h100()));
    EXPECT_EQ(t.num_ranks(), 11u);
    EXPECT_GE(distance(t, 0, 10), 2u);
  }
  EXPECT_EQ(built(leaf_spine({.nodes = 0, .memory_nodes = 2, .spines = 1}, h100())).num_ranks(),
            2u);
}

RC_GTEST_PROP(Builders, NoLeafHasLessUpwardThanDownwardUnlessAsked, ()) {
  const Cluster c{.nodes = *rc::gen::inRange<std::uint32_t>(1, 12),
                  .gpus_per_node = *rc::gen::element<std::uint32_t>(1, 2, 4, 8),
                  .planes = *rc::gen::inRange<std::uint32_t>(1, 3),
                  .spines = *rc::gen::inRange<std::uint32_t>(1, 9)};
  const auto build = *rc::gen::element(&leaf_spine, &rails);
  const auto t = build(c, h100());
  if (!t) {
    RC_ASSERT(t.error().message.find("do not divide") != std::string::npos);
    RC_DISCARD("does not divide");
  }
  RC_ASSERT(t->num_ranks() == c.nodes * c.gpus_per_node);
  std::map<std::uint32_t, double> up, down;
  for (const Link& link : t->links()) {
    const auto kind = t->vertices()[link.to.value].kind;
    if (kind == VertexKind::spine) up[link.from.value] += link.rate.value;
    if (kind == VertexKind::nic) down[link.from.value] += link.rate.value;
  }
  for (const auto& [leaf, rate] : down) RC_ASSERT(up[leaf] >= rate);
  // Names tell links apart.
  std::set<std::string> names;
  for (const Link& link : t->links()) RC_ASSERT(names.insert(link.name).second);
}

TEST(Builders, TheLastLeafMayHoldFewerNodesAndUplinksMayBeFewerThanPorts) {
  const Cluster c{
      .nodes = 3, .gpus_per_node = 4, .spines = 2, .nodes_per_leaf = 2, .uplinks_per_spine = 1};
  for (const auto build : {&leaf_spine, &rails}) {
    const auto t = build(c, h100());
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(t->num_ranks(), 12u);
    std::map<std::uint32_t, int> up, down;
    for (const Link& link : t->links()) {
      const auto kind = t->vertices()[link.to.value].kind;
      if (kind == VertexKind::spine) ++up[link.from.value];
      if (kind == VertexKind::nic) ++down[link.from.value];
    }
    for (const auto& [leaf, count] : up) EXPECT_EQ(count, 2);
    const int all = build == &leaf_spine ? 8 : 2, last = all / 2;
    EXPECT_EQ(down.begin()->second, all);
    EXPECT_EQ(down.rbegin()->second, last);
  }
}

TEST(Builders, CountsThatDoNotDivideAreRefused) {
  const auto message = [](const Result<Topology>& t) { return t ? "accepted" : t.error().message; };
  EXPECT_EQ(
      message(leaf_spine({.nodes = 2, .gpus_per_node = 8, .spines = 3}, h100())),
      "8 ports below a leaf do not divide over 3 spines; change spines or nodes_per_leaf, or set "
      "uplinks_per_spine");
  EXPECT_EQ(message(leaf_spine(
                {.nodes = 2, .gpus_per_node = 8, .spines = 3, .uplinks_per_spine = 1}, h100())),
            "accepted");
  EXPECT_EQ(message(rails({.nodes = 2, .spines = 0}, h100())),
            "0 spines: leaves would not be connected");
  EXPECT_NE(message(single_switch({.nodes = 0}, h100())).find("0 nodes of 8 GPUs"),
            std::string::npos);
  EXPECT_NE(message(single_switch({.planes = 0}, h100())).find("0 planes"), std::string::npos);
  const auto pair = *load_profile("h200-nvlink-pair", default_profile_dirs());
  EXPECT_NE(message(single_switch({}, pair)).find("has no NIC port"), std::string::npos);
}

TEST(Builders, TwoThousandRanksOnFourPlanesAreFast) {
  const auto profile = h100();
  const auto begin = std::chrono::steady_clock::now();
  const auto t = built(rails({.nodes = 256, .planes = 4, .spines = 32}, profile));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(t.num_ranks(), 2048u);
  EXPECT_LT(took, std::chrono::seconds{3});
  RecordProperty("milliseconds", static_cast<int>(took / std::chrono::milliseconds{1}));
}

}  // namespace
}  // namespace engram::model
