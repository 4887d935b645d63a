#include "idle_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engram/model/lanes.hpp"
#include "engram/model/network_warnings.hpp"
#include "figures.hpp"

namespace engram::tools {
namespace {

/// Settings of the network and of traffic, which only the sim backend has.
template <class Idle>
void warn_of_sim_settings(const Scenario& scenario, const Idle& idle) {
  idle("run.fidelity", "only the sim backend has several");
  for (const char* key :
       {"cluster.network.topology", "cluster.network.routing", "cluster.network.spines",
        "cluster.network.planes", "cluster.network.mtu", "cluster.network.congestion_control",
        "cluster.network.lanes.weights", "cluster.network.lanes.sl_to_vl", "cluster.override"}) {
    idle(key, fmt::format("the {} backend has no model of the network", scenario.run.backend));
  }
  for (const BackgroundTraffic& traffic : scenario.background) {
    idle(traffic.key.c_str(),
         fmt::format("the {} backend carries no other traffic", scenario.run.backend));
  }
}

/// Keys of workloads and operations other than the one that runs.
template <class Idle>
void warn_of_other_workloads(const Scenario& scenario, const Idle& idle) {
  const FetchSection& fetch = scenario.fetch;
  const auto only = [&](WorkloadKind kind, std::initializer_list<const char*> keys) {
    if (fetch.workload == kind) return;
    for (const char* key : keys) {
      idle(key, fmt::format("workload is {}, not {}", name_of(fetch.workload), name_of(kind)));
    }
  };
  only(WorkloadKind::zipf, {"fetch.exponent"});
  only(WorkloadKind::ngram, {"fetch.text", "fetch.orders", "fetch.heads"});
  only(WorkloadKind::trace, {"fetch.file"});
  if (fetch.hot_fraction <= 0) idle("fetch.hot_owner", "fetch.hot_fraction is 0");
  // One line a table, at the first of its keys.
  for (const std::string_view table : {"expert_parallel.", "pipeline.", "all_gather."}) {
    const auto key = scenario.places.lower_bound(std::string(table));
    if (key != scenario.places.end() && key->first.starts_with(table)) {
      idle(key->first.c_str(), "the operation is a fetch, which reads no key of its table");
    }
  }
}

}  // namespace

void warn_of_idle_settings(const Scenario& scenario, const model::Profile& profile,
                           const FetchMeasurements& measured, RunResult& result) {
  const auto idle = [&](const char* key, std::string_view why) {
    if (!scenario.places.contains(key)) return;
    result.warnings.push_back(fmt::format("{} has no effect: {}", scenario.where(key), why));
  };
  if (result.paths.rdma.requests == 0) {
    for (const char* key : {"fetch.qps", "fetch.depth", "fetch.flush_depth"}) {
      idle(key, "no read takes the network");
    }
  } else if (scenario.fetch.flush_depth && *scenario.fetch.flush_depth > 1 &&
             measured.plan.ring_every == 1) {
    idle("fetch.flush_depth",
         fmt::format("{} warps share a QP and each rings for every request, as with 1",
                     measured.plan.units_per_peer));
  }
  if (!scenario.host.nic.empty()) {
    const std::vector<std::string> each(scenario.cluster.gpus_per_node, scenario.host.nic);
    for (auto& text : model::shared_nic_warnings(each, {&scenario.host.nic, 1})) {
      result.warnings.push_back(std::move(text));
    }
  }
  const NetworkSection& network = scenario.cluster.network;
  if (network.topology == NetworkKind::single_switch) {
    idle("cluster.network.spines", "a single switch has none");
    idle("cluster.network.routing", "a single switch leaves no choice");
  }
  if (network.topology == NetworkKind::file) {
    for (const char* key : {"cluster.network.planes", "cluster.network.spines"}) {
      idle(key, "the topology file has its own");
    }
  } else {
    idle("cluster.network.file", fmt::format("topology is {}", name_of(network.topology)));
  }
  if (network.topology == NetworkKind::file || network.topology == NetworkKind::single_switch) {
    for (const char* key :
         {"cluster.network.nodes_per_leaf", "cluster.network.uplinks_per_spine"}) {
      idle(key, "only fat_tree and rail take it");
    }
  }
  if (network.lanes.sl_to_vl.empty()) {
    idle("cluster.network.service_level", "without cluster.network.lanes there is one lane");
  }
  warn_of_other_workloads(scenario, idle);
  if (scenario.cluster.overrides->at_path("network.mtu")) {
    idle("cluster.override", "its network.mtu gives way to cluster.network.mtu");
  }
  for (std::size_t i = 0; i < scenario.background.size(); ++i) {
    const BackgroundTraffic& traffic = scenario.background[i];
    if (traffic.from != traffic.to) continue;
    result.warnings.push_back(fmt::format("{} has no effect: from and to are both rank {}",
                                          scenario.where(traffic.key), traffic.to.value));
  }
  if (network.topology != NetworkKind::fat_tree) {
    idle("cluster.network.leaves", "only a fat_tree takes it");
  }
  if (scenario.run.backend != "sim") {
    warn_of_sim_settings(scenario, idle);
    return;
  }
  if (result.congestion && result.congestion->cuts == 0) {
    idle("cluster.network.congestion_control",
         fmt::format(
             "no sender was slowed; the longest queue at a switch was {}, packets are marked "
             "from {} on",
             show(result.congestion->longest_queue), show(profile.congestion.mark_from)));
  }
  const LaneSection& lanes = network.lanes;
  if (lanes.weights.empty() || lanes.sl_to_vl.empty()) return;
  const auto config = model::LaneConfig::create(lanes.sl_to_vl, lanes.weights);
  if (!config) return;
  for (const std::string& text : config->warnings()) result.warnings.push_back(text);
  const auto own = config->lane(network.service_level);
  const bool alone = std::ranges::all_of(
      scenario.background,
      [&](const BackgroundTraffic& traffic) { return config->lane(traffic.service_level) == own; });
  if (alone) idle("cluster.network.lanes.weights", "all traffic takes one lane");
}

}  // namespace engram::tools
