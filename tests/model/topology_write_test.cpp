// What is written is read back as the same network, from each source of one.
#include <gtest/gtest.h>

#include <map>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/model/topology_file.hpp"
#include "support/file_test.hpp"

namespace engram::model {
namespace {

using TopologyToml = FileTest;

std::string fixture(const std::string& name) { return std::string(ENGRAM_FIXTURES) + "/" + name; }

std::map<std::string, std::tuple<VertexKind, std::uint32_t, std::optional<Rank>>> vertices_of(
    const Topology& t) {
  std::map<std::string, std::tuple<VertexKind, std::uint32_t, std::optional<Rank>>> all;
  for (const Vertex& v : t.vertices()) all[v.name] = {v.kind, v.plane, v.rank};
  return all;
}

void expect_same(const Topology& a, const Topology& b) {
  EXPECT_EQ(vertices_of(a), vertices_of(b));
  ASSERT_EQ(a.links().size(), b.links().size());
  for (std::size_t i = 0; i < a.links().size(); ++i) {
    const Link &x = a.links()[i], &y = b.links()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(a.vertices()[x.from.value].name, b.vertices()[y.from.value].name) << x.name;
    EXPECT_EQ(a.vertices()[x.to.value].name, b.vertices()[y.to.value].name) << x.name;
    EXPECT_EQ(x.rate, y.rate) << x.name;
    EXPECT_EQ(x.latency, y.latency) << x.name;
  }
}

TEST_F(TopologyToml, ImportsComeBackTheSame) {
  for (const char* name : {"fat_tree.xml", "graph.xml", "two_planes.ibnet"}) {
    SCOPED_TRACE(name);
    const auto import = load_network(fixture(name));
    ASSERT_TRUE(import) << import.error().message;
    const auto again = load_network(write("again.toml", topology_toml(import->topology)));
    ASSERT_TRUE(again) << again.error().message;
    expect_same(import->topology, again->topology);
  }
}

TEST_F(TopologyToml, BuiltNetworksComeBackTheSame) {
  const auto profile = load_profile("h100-cx7-400", default_profile_dirs());
  ASSERT_TRUE(profile);
  const Cluster cluster{.nodes = 4,
                        .gpus_per_node = 2,
                        .memory_nodes = 2,
                        .planes = 3,
                        .spines = 1,
                        .uplinks_per_spine = 2};
  for (const auto build : {&leaf_spine, &rails, &single_switch}) {
    const auto t = build(cluster, *profile);
    ASSERT_TRUE(t) << t.error().message;
    const std::string text = topology_toml(*t);
    EXPECT_EQ(text.find("[[link]]"), std::string::npos) << "cables are what one edits";
    const auto again = load_topology(write("again.toml", text));
    ASSERT_TRUE(again) << again.error().message;
    expect_same(*t, *again);
  }
}

TEST_F(TopologyToml, OddNamesAndOneWayLinksComeBackTheSame) {
  const auto t = Topology::create({{"a \"1\"\\", VertexKind::nic, 0, Rank{0}},
                                   {"b", VertexKind::nic, 0, Rank{1}},
                                   {"s", VertexKind::other_switch, 0, {}}},
                                  {{"up", {0}, {2}, BytesPerSecond{1e10 / 3}, Nanos{7}},
                                   {"s->a", {2}, {0}, BytesPerSecond{1e9}, Nanos{0}},
                                   {"b->s", {1}, {2}, BytesPerSecond{1e9}, Nanos{1}},
                                   {"s->b", {2}, {1}, BytesPerSecond{2e9}, Nanos{1}}});
  ASSERT_TRUE(t) << t.error().message;
  const auto again = load_topology(write("again.toml", topology_toml(*t)));
  ASSERT_TRUE(again) << again.error().message;
  expect_same(*t, *again);
}

TEST_F(TopologyToml, AMachineIsNoNetwork) {
  const std::string text = refusal(load_network(fixture("two_sockets.xml")));
  EXPECT_NE(text.find("two_sockets.xml:1: NCCL's XML describes the inside of one machine"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace engram::model
