#include "platform.hpp"

#include <algorithm>
#include <filesystem>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/model/topology_file.hpp"
#include "figures.hpp"

namespace engram::tools {
namespace {

Result<model::Topology> regular_topology(const Scenario& scenario, const model::Profile& profile) {
  const ClusterSection& cluster = scenario.cluster;
  model::Cluster shape;
  shape.nodes = cluster.nodes;
  shape.gpus_per_node = cluster.gpus_per_node;
  // A memory node has gpus_per_node segments, each behind a NIC of its own.
  shape.memory_nodes = cluster.memory_nodes * cluster.gpus_per_node;
  shape.planes = cluster.network.planes;
  shape.spines = cluster.network.spines;
  shape.nodes_per_leaf = cluster.network.nodes_per_leaf.value_or(0);
  shape.uplinks_per_spine = cluster.network.uplinks_per_spine.value_or(0);
  switch (cluster.network.topology) {
    case NetworkKind::single_switch:
      return model::single_switch(shape, profile);
    case NetworkKind::rail:
      return model::rails(shape, profile);
    case NetworkKind::fat_tree:
      if (cluster.network.leaves) {
        const std::uint32_t leaves = *cluster.network.leaves;
        if (leaves == 0 || cluster.nodes % leaves != 0) {
          return fail(ErrorCode::invalid_argument, counted(cluster.nodes, "node"),
                      cluster.nodes == 1 ? " does" : " do", " not divide into ", leaves,
                      leaves == 1 ? " leaf" : " leaves",
                      "; set nodes_per_leaf instead, whose last leaf may hold fewer");
        }
        shape.nodes_per_leaf = cluster.nodes / leaves;
      }
      return model::leaf_spine(shape, profile);
    case NetworkKind::file:
      break;
  }
  return fail(ErrorCode::internal, "an unknown topology");
}

Result<model::ImportedTopology> make_topology(const Scenario& scenario,
                                              const model::Profile& profile) {
  if (scenario.cluster.network.topology != NetworkKind::file) {
    return regular_topology(scenario, profile).map([](model::Topology topology) {
      return model::ImportedTopology{std::move(topology), {}};
    });
  }
  auto read = model::load_network(scenario.cluster.network.file);
  if (read && read->topology.num_ranks() != scenario.num_ranks()) {
    return fail(ErrorCode::invalid_argument, scenario.cluster.network.file, " has NICs for ",
                read->topology.num_ranks(), " ranks; the scenario's (", scenario.cluster.nodes,
                " + ", scenario.cluster.memory_nodes, " memory) nodes x ",
                scenario.cluster.gpus_per_node, " are ", scenario.num_ranks());
  }
  return read;
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
  const auto without_limit = model::unlimited_rates(*profile);
  if (auto applied = model::apply_overrides(*profile, *cluster.overrides); !applied) {
    return tl::unexpected(applied.error());
  }
  std::vector<std::string> notes;
  for (const std::string& key : model::unlimited_rates(*profile)) {
    if (std::ranges::find(without_limit, key) != without_limit.end()) continue;
    notes.push_back(fmt::format("cluster.override.{} = 0 is no limit", key));
  }
  profile->network.mtu = cluster.network.mtu;
  auto topology = make_topology(scenario, *profile);
  if (!topology) return at_key(scenario, "cluster.network", topology.error());
  notes.insert(notes.end(), topology->notes.begin(), topology->notes.end());
  return Platform{*grid, std::move(*profile), std::move(topology->topology), std::move(notes)};
}

}  // namespace engram::tools
