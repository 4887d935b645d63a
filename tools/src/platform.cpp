#include "platform.hpp"

#include <filesystem>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/model/topology_file.hpp"

namespace engram::tools {
namespace {

Result<model::Topology> make_topology(const Scenario& scenario, const model::Profile& profile) {
  const ClusterSection& cluster = scenario.cluster;
  model::Cluster shape;
  shape.nodes = cluster.nodes;
  shape.gpus_per_node = cluster.gpus_per_node;
  // A memory node has gpus_per_node segments, each behind a NIC of its own.
  shape.memory_nodes = cluster.memory_nodes * cluster.gpus_per_node;
  shape.planes = cluster.network.planes;
  shape.spines = cluster.network.spines;
  switch (cluster.network.topology) {
    case NetworkKind::single_switch:
      return model::single_switch(shape, profile);
    case NetworkKind::rail:
      return model::rails(shape, profile);
    case NetworkKind::fat_tree:
      if (cluster.network.leaves) {
        const std::uint32_t leaves = *cluster.network.leaves;
        if (leaves == 0 || cluster.nodes % leaves != 0) {
          return fail(ErrorCode::invalid_argument, cluster.nodes, " nodes do not divide into ",
                      leaves, " leaves");
        }
        shape.nodes_per_leaf = cluster.nodes / leaves;
      }
      return model::leaf_spine(shape, profile);
    case NetworkKind::file:
      return model::load_topology(cluster.network.file);
  }
  return fail(ErrorCode::internal, "an unknown topology");
}

}  // namespace

tl::unexpected<Error> at_key(const Scenario& scenario, std::string_view key, const Error& error) {
  return within(error, scenario.where(key));
}

Result<Platform> make_platform(const Scenario& scenario) {
  const ClusterSection& cluster = scenario.cluster;
  const bool hybrid = cluster.mode == ClusterMode::hybrid;
  auto grid = core::RankGrid::create(scenario.num_ranks(), scenario.gpus_per_domain(),
                                     hybrid ? core::Mode::hybrid : core::Mode::direct);
  if (!grid) return at_key(scenario, "cluster.gpus_per_domain", grid.error());

  auto dirs = model::default_profile_dirs();
  if (!scenario.path.empty())
    dirs.insert(dirs.begin(), std::filesystem::path(scenario.path).parent_path());
  auto profile = model::load_profile(cluster.profile, dirs);
  if (!profile) return at_key(scenario, "cluster.profile", profile.error());
  if (auto applied = model::apply_overrides(*profile, *cluster.overrides); !applied) {
    return tl::unexpected(applied.error());
  }
  profile->network.mtu = cluster.network.mtu;
  auto topology = make_topology(scenario, *profile);
  if (!topology) return at_key(scenario, "cluster.network", topology.error());
  return Platform{*grid, std::move(*profile), std::move(*topology)};
}

}  // namespace engram::tools
