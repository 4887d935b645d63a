#include "sim_options.hpp"

#include <algorithm>

#include "engram/model/lanes.hpp"

namespace engram::tools {
namespace {

Result<sim::Lanes> lanes_of(const Scenario& scenario) {
  const LaneSection& section = scenario.cluster.network.lanes;
  sim::Lanes lanes;
  if (section.weights.empty() && section.sl_to_vl.empty()) return lanes;
  auto config = model::LaneConfig::create(section.sl_to_vl, section.weights);
  if (!config) return at_key(scenario, "cluster.network.lanes", config.error());
  lanes.weights.clear();
  for (std::uint32_t lane = 0; lane < config->num_lanes(); ++lane) {
    lanes.weights.push_back(std::max(1u, config->weight(lane)));
  }
  for (std::uint32_t level = 0; level < lanes.service_level.size(); ++level) {
    lanes.service_level[level] =
        static_cast<std::uint8_t>(config->lane(level).value_or(sim::Lanes::kNoLane));
  }
  return lanes;
}

Result<model::LinkIndex> target_link(const Scenario& scenario, const Platform& platform,
                                     const Fault& fault) {
  std::string_view name = fault.target;
  if (name.starts_with("link ")) name.remove_prefix(5);
  const auto links = platform.topology.links();
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    if (links[l].name == name) return model::LinkIndex{l};
  }
  return fail(ErrorCode::invalid_argument, scenario.where("fault"), ": ", name_of(fault.kind),
              ": no link '", name, "' in this network; there are ", links.size(), ", such as '",
              links.empty() ? "" : links.front().name, "'");
}

Result<sim::Fault> as_fault(const Scenario& scenario, const Platform& platform,
                            const Fault& fault) {
  sim::Fault made;
  made.at = fault.at;
  made.delay = fault.delay;
  const auto of_rank = [&](sim::FaultKind kind) -> Result<sim::Fault> {
    auto rank = target_rank(scenario, fault);
    if (!rank) return tl::unexpected(rank.error());
    made.kind = kind;
    made.rank = *rank;
    return made;
  };
  switch (fault.kind) {
    case FaultKind::link_down:
    case FaultKind::link_up: {
      auto link = target_link(scenario, platform, fault);
      if (!link) return tl::unexpected(link.error());
      made.kind = sim::FaultKind::link_down;
      made.link = *link;
      for (const Fault& other : scenario.faults) {
        if (other.kind == FaultKind::link_up && other.target == fault.target &&
            other.at >= fault.at) {
          made.until = std::min<sim::Picos>(made.until, other.at);
        }
      }
      return made;
    }
    case FaultKind::rank_dead:
      return of_rank(sim::FaultKind::rank_dead);
    case FaultKind::memory_node_gone:
      return of_rank(sim::FaultKind::memory_node_gone);
    case FaultKind::nic_error:
      return of_rank(sim::FaultKind::nic_error);
    case FaultKind::delayed_doorbell:
      return of_rank(sim::FaultKind::delayed_doorbell);
    case FaultKind::reordered_completions:
      return of_rank(sim::FaultKind::reordered_completions);
    case FaultKind::late_visibility:
      return of_rank(sim::FaultKind::late_visibility);
    case FaultKind::corrupted_row:
      return of_rank(sim::FaultKind::corrupted_row);
    case FaultKind::rank_slow: {
      // The scenario gives the extra time of a request; the fabric stretches all its NIC does.
      const double reads = platform.profile.nic.read_rate.value;
      made.factor = 1 + static_cast<double>(fault.delay.count()) * 1e-9 * reads;
      return of_rank(sim::FaultKind::rank_slow);
    }
  }
  return fail(ErrorCode::internal, "an unknown fault");
}

}  // namespace

std::unique_ptr<SimTrace> make_sim_trace(const BackendNeeds& needs, const Platform& platform) {
  if (needs.trace == nullptr || needs.tracing == nullptr) return nullptr;
  return std::make_unique<SimTrace>(*needs.trace, *needs.tracing, platform.topology);
}

Result<sim_backend::SimOptions> sim_options(const Scenario& scenario, const Platform& platform,
                                            const BackendNeeds& needs, SimTrace* trace) {
  const NetworkSection& network = scenario.cluster.network;
  sim::FabricOptions fabric{platform.profile, platform.topology};
  fabric.fidelity = needs.fidelity == Fidelity::flow    ? sim::Fidelity::flow
                    : needs.fidelity == Fidelity::batch ? sim::Fidelity::batch
                                                        : sim::Fidelity::message;
  fabric.routing =
      network.routing == RoutingKind::adaptive ? sim::Routing::adaptive : sim::Routing::ecmp;
  auto lanes = lanes_of(scenario);
  if (!lanes) return tl::unexpected(lanes.error());
  fabric.lanes = *lanes;
  for (const BackgroundTraffic& traffic : scenario.background) {
    if (traffic.kind != TrafficKind::flow) {
      return fail(ErrorCode::invalid_argument, scenario.where("background"), ": kind '",
                  name_of(traffic.kind), "' is not modelled by the sim backend; accepted: flow");
    }
    sim::Background background;
    background.from = traffic.from;
    background.to = traffic.to;
    background.rate = traffic.rate;
    background.message = traffic.message_size;
    background.service_level = traffic.service_level;
    background.start = traffic.start;
    if (traffic.stop) background.stop = *traffic.stop;
    fabric.background.push_back(background);
  }
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == FaultKind::link_up) continue;  // ends its link_down
    auto made = as_fault(scenario, platform, fault);
    if (!made) return tl::unexpected(made.error());
    fabric.faults.faults.push_back(*made);
  }
  // The seed also settles what real machines leave open: which ready QP the NIC serves next.
  fabric.perturbation.seed = scenario.run.seed;
  fabric.perturbation.engine_order = true;
  fabric.observer = trace;

  sim_backend::SimOptions options{.grid = platform.grid, .fabric = std::move(fabric)};
  options.service_level = network.service_level;
  if (trace != nullptr) {
    options.qp_opened = [trace](sim::QpId qp, Rank local, QpIndex index, Rank remote) {
      trace->name_qp(qp, local, index, remote);
    };
  }
  if (needs.row_check) options.row_check = needs.row_check;
  options.watchdog = 4 * sim::Picos(std::min<Nanos>(scenario.run.deadline, std::chrono::hours{1}));
  return options;
}

}  // namespace engram::tools
