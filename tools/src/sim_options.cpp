#include "sim_options.hpp"

#include <algorithm>

#include "engram/model/lanes.hpp"
#include "fault_target.hpp"

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

/// links_of(); none is an error.
Result<std::vector<model::LinkIndex>> find_links(const Scenario& scenario, const Platform& platform,
                                                 const Fault& fault, const LinkTarget& target) {
  const auto links = platform.topology.links();
  const auto vertices = platform.topology.vertices();
  const std::string& name = target.name;
  if (auto found = links_of(platform.topology, target); !found.empty()) return found;
  if (target.of_switch) {
    const auto some = std::ranges::find_if(
        vertices, [](const auto& v) { return v.kind != model::VertexKind::nic; });
    return fail(ErrorCode::invalid_argument, scenario.where(fault.key + ".target"), ": ",
                name_of(fault.kind), ": no switch \"", name, "\" in this network",
                some == vertices.end() ? "" : "; there is \"" + some->name + "\"");
  }
  return fail(ErrorCode::invalid_argument, scenario.where(fault.key + ".target"), ": ",
              name_of(fault.kind), ": no link \"", name, "\" in this network; there are ",
              links.size(), ", such as \"", links.empty() ? "" : links.front().name, "\"");
}

std::string name_of_fault(const Fault& fault) {
  return fmt::format("{} of {}", name_of(fault.kind), fault.target);
}

Result<sim_backend::CorruptRow> find_row(const Scenario& scenario, const core::TableLayout& table,
                                         const Fault& fault, const RowTarget& target) {
  const auto refuse = [&](const char* what, std::uint64_t given, std::uint64_t below) {
    return fail(ErrorCode::invalid_argument, scenario.where(fault.key + ".target"), ": ", what, " ",
                given, "; accepted: below ", below);
  };
  if (target.layer.value >= table.num_layers()) {
    return refuse("layer", target.layer.value, table.num_layers());
  }
  const core::LayerPlace& place = table.place(target.layer);
  if (target.row >= place.rows) return refuse("row", target.row, place.rows);
  return sim_backend::CorruptRow{
      .owner = Rank{static_cast<std::uint32_t>(target.row / place.rows_per_rank)},
      .offset = place.base_offset + target.row % place.rows_per_rank * place.row_bytes,
      .bytes = place.row_bytes,
      .at = fault.at,
      .label = scenario.where(fault.key),
      .name = name_of_fault(fault)};
}

sim::FaultKind sim_kind(FaultKind kind) {
  switch (kind) {
    case FaultKind::link_down:
    case FaultKind::link_up:
      return sim::FaultKind::link_down;
    case FaultKind::rank_dead:
      return sim::FaultKind::rank_dead;
    case FaultKind::memory_node_gone:
      return sim::FaultKind::memory_node_gone;
    case FaultKind::nic_error:
      return sim::FaultKind::nic_error;
    case FaultKind::delayed_doorbell:
      return sim::FaultKind::delayed_doorbell;
    case FaultKind::reordered_completions:
      return sim::FaultKind::reordered_completions;
    case FaultKind::late_visibility:
      return sim::FaultKind::late_visibility;
    case FaultKind::rank_slow:
      return sim::FaultKind::rank_slow;
    case FaultKind::corrupted_row:
      break;  // the memory's, not the fabric's
  }
  require(false, "a fault of the fabric");
  return {};
}

/// Adds what `fault` comes to: one or several entries of the fabric's plan, or a corrupted row.
Result<void> add_fault(const Scenario& scenario, const Platform& platform,
                       const core::TableLayout* table, const Fault& fault,
                       sim_backend::SimOptions& options) {
  auto target = parse_target(scenario, fault);
  if (!target) return at_key(scenario, fault.key + ".target", target.error());
  if (const auto* row = std::get_if<RowTarget>(&*target)) {
    require(table != nullptr, "a corrupted row belongs to a table");
    auto found = find_row(scenario, *table, fault, *row);
    if (!found) return tl::unexpected(found.error());
    options.corrupt_rows.push_back(*found);
    return {};
  }
  if (fault.kind == FaultKind::corrupted_row) {  // of a rank: the next bytes read of its memory
    options.corrupt_rows.push_back({.owner = std::get<RanksTarget>(*target).ranks.front(),
                                    .bytes = ~std::uint64_t{0},
                                    .most = 1,
                                    .at = fault.at,
                                    .label = scenario.where(fault.key),
                                    .name = name_of_fault(fault)});
    return {};
  }
  sim::Fault made;
  made.kind = sim_kind(fault.kind);
  made.at = fault.at;
  made.delay = fault.delay;
  made.label = scenario.where(fault.key);
  auto& plan = options.fabric.faults.faults;
  if (const auto* link = std::get_if<LinkTarget>(&*target)) {
    auto found = find_links(scenario, platform, fault, *link);
    if (!found) return tl::unexpected(found.error());
    for (const Fault& other : scenario.faults) {
      if (other.kind == FaultKind::link_up && other.target == fault.target &&
          other.at >= fault.at) {
        made.until = std::min<sim::Picos>(made.until, other.at);
      }
    }
    for (const model::LinkIndex one : *found) {
      made.link = one;
      plan.push_back(made);
    }
    return {};
  }
  const auto& ranks = std::get<RanksTarget>(*target);
  made.qp = ranks.qp;
  if (fault.kind == FaultKind::rank_slow) {
    // The scenario gives the extra time of a request; the fabric stretches all its NIC does.
    const double reads = platform.profile.nic.read_rate.value;
    made.factor = 1 + static_cast<double>(fault.delay.count()) * 1e-9 * reads;
  }
  for (const Rank rank : ranks.ranks) {
    made.rank = rank;
    plan.push_back(made);
  }
  return {};
}

sim::BackgroundKind sim_kind(TrafficKind kind) {
  return kind == TrafficKind::reads    ? sim::BackgroundKind::reads
         : kind == TrafficKind::writes ? sim::BackgroundKind::writes
                                       : sim::BackgroundKind::flow;
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
  fabric.congestion = network.congestion_control == CongestionKind::dcqcn ? sim::Congestion::dcqcn
                                                                          : sim::Congestion::none;
  auto lanes = lanes_of(scenario);
  if (!lanes) return tl::unexpected(lanes.error());
  fabric.lanes = *lanes;
  const auto has_lane = [&](std::uint32_t level, const std::string& key) -> Result<void> {
    if (fabric.lanes.lane(level) != sim::Lanes::kNoLane) return {};
    return fail(ErrorCode::invalid_argument, scenario.where(key), ": service level ", level,
                " has no lane in cluster.network.lanes.sl_to_vl");
  };
  if (auto known = has_lane(network.service_level, "cluster.network.service_level"); !known) {
    return tl::unexpected(known.error());
  }
  for (const BackgroundTraffic& traffic : scenario.background) {
    if (auto known = has_lane(traffic.service_level, traffic.key + ".service_level"); !known) {
      return tl::unexpected(known.error());
    }
    sim::Background background;
    background.kind = sim_kind(traffic.kind);
    background.from = traffic.from;
    background.to = traffic.to;
    background.rate = traffic.rate;
    background.message = traffic.message_size;
    background.service_level = traffic.service_level;
    background.start = traffic.start;
    background.label = scenario.where(traffic.key);
    if (traffic.stop) background.stop = *traffic.stop;
    fabric.background.push_back(background);
  }
  // The seed also settles what real machines leave open: which ready QP the NIC serves next.
  fabric.perturbation.seed = scenario.run.seed;
  fabric.perturbation.engine_order = true;
  fabric.observer = trace;

  sim_backend::SimOptions options{.grid = platform.grid, .fabric = std::move(fabric)};
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == FaultKind::link_up) continue;  // ends its link_down
    if (auto added = add_fault(scenario, platform, needs.table, fault, options); !added) {
      return tl::unexpected(added.error());
    }
  }
  options.service_level = network.service_level;
  options.measured = needs.measured;
  options.until_failure = needs.until_failure;
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
