#include "engram/model/topology.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <deque>
#include <map>

namespace engram::model {
namespace {

Vertex nic_port(std::uint32_t rank, std::uint32_t plane = 0) {
  return {"nic" + std::to_string(rank) + "." + std::to_string(plane), VertexKind::nic, plane,
          Rank{rank}};
}
Vertex a_switch(std::string name, VertexKind kind = VertexKind::leaf, std::uint32_t plane = 0) {
  return {std::move(name), kind, plane, std::nullopt};
}

/// A graph under construction; cables are two links.
struct Draft {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  VertexIndex add(Vertex v) {
    vertices.push_back(std::move(v));
    return {static_cast<std::uint32_t>(vertices.size() - 1)};
  }
  void link(VertexIndex a, VertexIndex b) {
    links.push_back(
        {"l" + std::to_string(links.size()), a, b, gigabytes_per_second(50), Nanos{300}});
  }
  void cable(VertexIndex a, VertexIndex b) {
    link(a, b);
    link(b, a);
  }
  [[nodiscard]] Result<Topology> build() const { return Topology::create(vertices, links); }
};

/// Hops from every vertex to `destination`, found by relaxing every link until nothing changes.
std::vector<int> slow_distances(const Draft& d, std::uint32_t destination) {
  constexpr int kNever = 1 << 20;
  std::vector<int> steps(d.vertices.size(), kNever);
  steps[destination] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Link& l : d.links) {
      const bool ends = l.to.value == destination;
      if (!ends && d.vertices[l.to.value].kind == VertexKind::nic)
        continue;  // NICs forward nothing
      if (steps[l.to.value] + 1 < steps[l.from.value]) {
        steps[l.from.value] = steps[l.to.value] + 1;
        changed = true;
      }
    }
  }
  return steps;
}

std::vector<LinkIndex> slow_next_hops(const Draft& d, std::uint32_t at, std::uint32_t destination,
                                      const std::vector<int>& steps) {
  std::vector<LinkIndex> hops;
  if (at == destination) return hops;
  for (std::uint32_t l = 0; l < d.links.size(); ++l) {
    const std::uint32_t to = d.links[l].to.value;
    const bool usable = to == destination || d.vertices[to].kind != VertexKind::nic;
    if (d.links[l].from.value == at && usable && steps[to] == steps[at] - 1) hops.push_back({l});
  }
  return hops;
}

/// Any connected network of a plane: switches in a random tree plus random extra cables and one-way
/// links, each NIC on one or two switches, parallel cables included.
Draft random_network() {
  Draft d;
  const auto num_switches = *rc::gen::inRange<std::uint32_t>(1, 8);
  const auto num_nics = *rc::gen::inRange<std::uint32_t>(1, 12);
  const auto pick = [&](std::uint32_t below) { return *rc::gen::inRange<std::uint32_t>(0, below); };
  std::vector<VertexIndex> switches;
  for (std::uint32_t s = 0; s < num_switches; ++s) {
    switches.push_back(d.add(a_switch("s" + std::to_string(s), VertexKind::other_switch)));
    if (s > 0) d.cable(switches[s], switches[pick(s)]);
  }
  for (std::uint32_t extra = pick(8); extra > 0 && num_switches > 1; --extra) {
    const std::uint32_t a = pick(num_switches), b = (a + 1 + pick(num_switches - 1)) % num_switches;
    if (pick(3) == 0)
      d.link(switches[a], switches[b]);
    else
      d.cable(switches[a], switches[b]);
  }
  std::vector<VertexIndex> nics;
  for (std::uint32_t r = 0; r < num_nics; ++r) {
    nics.push_back(d.add(nic_port(r)));
    const auto home = switches[pick(num_switches)];
    d.cable(nics.back(), home);
    if (pick(4) == 0) d.cable(nics.back(), switches[pick(num_switches)]);
    if (pick(6) == 0) d.link(home, nics.back());                     // a parallel way in
    if (r > 0 && pick(5) == 0) d.cable(nics.back(), nics[pick(r)]);  // back to back
  }
  return d;
}

RC_GTEST_PROP(Topology, NextHopsAreThoseOfASearchFromEveryDestination, ()) {
  const Draft d = random_network();
  const auto topology = d.build();
  RC_ASSERT(topology.has_value());
  std::size_t choices = 0;
  for (std::uint32_t to = 0; to < d.vertices.size(); ++to) {
    if (d.vertices[to].kind != VertexKind::nic) continue;
    const auto steps = slow_distances(d, to);
    for (std::uint32_t at = 0; at < d.vertices.size(); ++at) {
      const auto fast = topology->next_hops({at}, {to});
      RC_ASSERT(std::vector<LinkIndex>(fast.begin(), fast.end()) ==
                slow_next_hops(d, at, to, steps));
      choices += fast.size() > 1;
    }
  }
  RC_CLASSIFY(choices > 0, "has several equally short ways");
}

RC_GTEST_PROP(Topology, AnyPacketThatFollowsNextHopsArrives, ()) {
  const Draft d = random_network();
  const auto topology = d.build();
  RC_ASSERT(topology.has_value());
  const auto ranks = topology->num_ranks();
  const auto from = *topology->nic(Rank{*rc::gen::inRange<std::uint32_t>(0, ranks)}, 0);
  const auto to = *topology->nic(Rank{*rc::gen::inRange<std::uint32_t>(0, ranks)}, 0);
  VertexIndex at = from;
  for (std::size_t hops = 0; at != to; ++hops) {
    RC_ASSERT(hops <= d.vertices.size());
    const auto next = topology->next_hops(at, to);
    RC_ASSERT(!next.empty());
    at = topology->links()[next[*rc::gen::inRange<std::size_t>(0, next.size())].value].to;
  }
}

/// leaves x nics NICs a plane, every leaf cabled to every spine.
Draft leaf_spine_draft(std::uint32_t planes, std::uint32_t leaves, std::uint32_t nics,
                       std::uint32_t spines) {
  Draft d;
  for (std::uint32_t p = 0; p < planes; ++p) {
    std::vector<VertexIndex> tops;
    for (std::uint32_t s = 0; s < spines; ++s) {
      tops.push_back(d.add(a_switch("spine", VertexKind::spine, p)));
    }
    for (std::uint32_t l = 0; l < leaves; ++l) {
      const auto leaf = d.add(a_switch("leaf", VertexKind::leaf, p));
      for (const auto top : tops) d.cable(leaf, top);
      for (std::uint32_t n = 0; n < nics; ++n) d.cable(d.add(nic_port(l * nics + n, p)), leaf);
    }
  }
  return d;
}

TEST(Topology, ALeafOffersEverySpineAndASpineOneLeaf) {
  const auto t = leaf_spine_draft(2, 3, 4, 5).build();
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->num_planes(), 2u);
  EXPECT_EQ(t->num_ranks(), 12u);
  const auto from = *t->nic(Rank{0}, 1), far = *t->nic(Rank{11}, 1), near = *t->nic(Rank{1}, 1);
  ASSERT_EQ(t->next_hops(from, far).size(), 1u);
  const auto leaf = t->links()[t->next_hops(from, far)[0].value].to;
  EXPECT_EQ(t->next_hops(leaf, far).size(), 5u);
  EXPECT_EQ(t->next_hops(leaf, near).size(), 1u);
  for (const auto up : t->next_hops(leaf, far)) {
    EXPECT_EQ(t->next_hops(t->links()[up.value].to, far).size(), 1u);
  }
  EXPECT_TRUE(t->next_hops(from, *t->nic(Rank{11}, 0)).empty()) << "planes are not joined";
  EXPECT_TRUE(t->next_hops(from, from).empty());
  EXPECT_EQ(t->nic(Rank{12}, 0), std::nullopt);
  EXPECT_EQ(t->nic(Rank{0}, 2), std::nullopt);
}

TEST(Topology, TwoThousandRanksOnFourPlanesAreFast) {
  const Draft d = leaf_spine_draft(4, 32, 64, 32);
  const auto begin = std::chrono::steady_clock::now();
  const auto t = d.build();
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->num_ranks(), 2048u);
  // 20 ms in a release build; the bound only catches a return to one search a NIC.
  EXPECT_LT(took, std::chrono::seconds{2});
  RecordProperty("milliseconds", static_cast<int>(took / std::chrono::milliseconds{1}));
}

std::string refusal(const Draft& d) {
  const auto t = d.build();
  return t ? "accepted" : t.error().message;
}

TEST(Topology, RefusesNamesOfNothing) {
  Draft d = leaf_spine_draft(1, 1, 2, 1);
  d.links[3].to = VertexIndex{99};
  EXPECT_EQ(refusal(d), "link 3 \"l3\" names vertex 99 of 4");
  d = leaf_spine_draft(1, 1, 2, 1);
  d.links[3].rate = {};
  EXPECT_NE(refusal(d).find("rate 0 B/s"), std::string::npos) << refusal(d);
}

TEST(Topology, RefusesANicThatCannotReachAnother) {
  Draft d = leaf_spine_draft(1, 2, 1, 1);
  std::erase_if(d.links,
                [&](const Link& l) { return l.from == VertexIndex{0} && l.to == VertexIndex{3}; });
  EXPECT_EQ(refusal(d), "NIC \"nic0.0\" cannot reach NIC \"nic1.0\" of its plane 0");
}

TEST(Topology, RefusesTwoPortsOfOneRankInAPlaneAndGapsInTheRanks) {
  Draft d = leaf_spine_draft(1, 1, 3, 1);
  d.vertices[4].rank = Rank{0};
  EXPECT_NE(refusal(d).find("rank 0 has two NIC ports in plane 0"), std::string::npos)
      << refusal(d);
  d = leaf_spine_draft(1, 1, 3, 1);
  d.vertices[3].rank = std::nullopt;  // rank 1 of 0, 1, 2
  EXPECT_EQ(refusal(d), "rank 1 has no NIC port, but rank 2 has");
  d = leaf_spine_draft(1, 1, 3, 1);
  d.vertices[0].rank = Rank{3};
  EXPECT_EQ(refusal(d), "switch \"spine\" carries rank 3; only a NIC port belongs to a rank");
}

}  // namespace
}  // namespace engram::model
