#include "engram/model/ecmp.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "engram/model/network_warnings.hpp"
#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"

namespace engram::model {
namespace {

Topology tree(std::uint32_t nodes, std::uint32_t planes = 1) {
  return *leaf_spine(
      {.nodes = nodes, .gpus_per_node = 8, .planes = planes, .spines = 8, .nodes_per_leaf = 1},
      *load_profile("h100-cx7-400", default_profile_dirs()));
}

RC_GTEST_PROP(Ecmp, APathLeadsFromSourceToDestinationAndIsAlwaysTheSame, ()) {
  static const Topology t = tree(4);
  const auto rank = [] { return Rank{*rc::gen::inRange<std::uint32_t>(0, 32)}; };
  const Flow flow{rank(), rank(), QpIndex{*rc::gen::inRange<std::uint32_t>(0, 1000)}};
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto path = ecmp_path(t, flow, seed);
  RC_ASSERT(path == ecmp_path(t, flow, seed));
  VertexIndex at = *t.nic(flow.src, 0);
  for (const LinkIndex link : path) {
    RC_ASSERT(t.links()[link.value].from == at);
    at = t.links()[link.value].to;
  }
  RC_ASSERT(at == *t.nic(flow.dst, 0));
}

TEST(Ecmp, ChoicesAreSpreadEvenly) {
  // 80,000 flows over 8 links: 10,000 each, standard deviation 94; six of them are allowed.
  std::vector<int> count(8);
  for (std::uint32_t src = 0; src < 100; ++src) {
    for (std::uint32_t dst = 0; dst < 100; ++dst) {
      for (std::uint32_t qp = 0; qp < 8; ++qp) {
        ++count[ecmp_choice(flow_hash({Rank{src}, Rank{dst}, QpIndex{qp}}, 1), VertexIndex{5}, 8)];
      }
    }
  }
  for (const int n : count) EXPECT_NEAR(n, 10000, 6 * 94);
}

TEST(Ecmp, TwoSwitchesInARowDoNotRepeatTheirChoice) {
  int same = 0;
  for (std::uint32_t src = 0; src < 8000; ++src) {
    const auto hash = flow_hash({Rank{src}, Rank{0}, QpIndex{0}}, 1);
    same += ecmp_choice(hash, VertexIndex{1}, 8) == ecmp_choice(hash, VertexIndex{2}, 8);
  }
  EXPECT_NEAR(same, 1000, 6 * 30);
}

/// Every rank of node 0 sends at full rate to its counterpart on node 1: eight flows, eight spines.
std::vector<Flow> permutation(double demand) {
  std::vector<Flow> flows;
  for (std::uint32_t g = 0; g < 8; ++g) {
    flows.push_back({Rank{g}, Rank{8 + g}, QpIndex{0}, 0, demand});
  }
  return flows;
}

TEST(Ecmp, CollisionsAreLinksAskedForTooMuchBesideLinksWithRoom) {
  const Topology t = tree(2);
  const auto flows = permutation(50e9);
  const auto collisions = ecmp_collisions(t, flows, 1);
  // Eight flows hashed onto eight links without a collision: 8! / 8^8 = 0.2 %; not with this seed.
  ASSERT_FALSE(collisions.empty());
  for (const Collision& c : collisions) {
    EXPECT_NEAR(c.load, static_cast<double>(c.flows.size()), 1e-9);
    EXPECT_GE(c.flows.size(), 2u);
  }
  const auto warnings = collision_warnings(t, collisions, 1);
  EXPECT_NE(warnings[0].find("ECMP collision: "), std::string::npos);
  EXPECT_NE(warnings[0].find("spread evenly over the equally short links it would be 1.00"),
            std::string::npos)
      << warnings[0];
}

TEST(Ecmp, NothingCollidesWhileLinksHaveRoomOrThereIsNoChoice) {
  const Topology t = tree(2);
  EXPECT_TRUE(ecmp_collisions(t, permutation(50e9 / 8), 1).empty());
  const std::vector<Flow> incast{{Rank{1}, Rank{0}, QpIndex{0}, 0, 50e9},
                                 {Rank{2}, Rank{0}, QpIndex{0}, 0, 50e9}};
  EXPECT_TRUE(ecmp_collisions(t, incast, 1).empty()) << "one link leads to the receiver";
}

TEST(NetworkWarnings, ASharedNic) {
  const std::vector<std::string> nics{"mlx5_0", "mlx5_1"};
  const std::vector<std::string> all_on_one{"mlx5_0", "mlx5_0"}, one_each{"mlx5_0", "mlx5_1"};
  EXPECT_EQ(shared_nic_warnings(all_on_one, nics),
            std::vector<std::string>{
                "NIC mlx5_0 is shared by ranks 0, 1 of the node, while mlx5_1 is used by none"});
  EXPECT_TRUE(shared_nic_warnings(one_each, nics).empty());
}

}  // namespace
}  // namespace engram::model
