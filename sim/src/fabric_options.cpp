#include "fabric_options.hpp"

#include <algorithm>

namespace engram::sim {

const char* name_of(RequestKind kind) {
  switch (kind) {
    case RequestKind::read:
      return "read";
    case RequestKind::write:
      return "write";
    case RequestKind::write_inline:
      return "write_inline";
    case RequestKind::atomic_add:
      return "atomic_add";
  }
  return "";
}

const char* name_of(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::message:
      return "message";
    case Fidelity::batch:
      return "batch";
    case Fidelity::flow:
      return "flow";
  }
  return "";
}

Lanes Lanes::from(const model::LaneConfig& config) {
  Lanes lanes;
  lanes.weights.clear();
  for (std::uint32_t lane = 0; lane < config.num_lanes(); ++lane) {
    lanes.weights.push_back(config.weight(lane));
  }
  for (std::uint32_t level = 0; level < lanes.service_level.size(); ++level) {
    lanes.service_level[level] = static_cast<std::uint8_t>(config.lane(level).value_or(kNoLane));
  }
  return lanes;
}

Result<void> check_options(const FabricOptions& options, std::uint32_t num_ranks) {
  const std::uint32_t ranks = options.topology.num_ranks();
  if (ranks < num_ranks) {
    return fail(ErrorCode::invalid_argument, "the topology has NICs for ", ranks,
                " ranks, the run has ", num_ranks);
  }
  const auto& weights = options.lanes.weights;
  if (weights.empty() || weights.size() > model::kMaxLanes) {
    return fail(ErrorCode::invalid_argument, weights.size(), " virtual lanes; 1 to ",
                model::kMaxLanes, " are accepted");
  }
  for (std::size_t level = 0; level < options.lanes.service_level.size(); ++level) {
    const std::uint8_t lane = options.lanes.service_level[level];
    if (lane == Lanes::kNoLane || (lane < weights.size() && weights[lane] > 0)) continue;
    return fail(ErrorCode::invalid_argument, "service level ", level, " maps to lane ",
                unsigned{lane}, ", which has no weight; there are ", weights.size(), " lanes");
  }
  for (std::size_t i = 0; i < options.background.size(); ++i) {
    const Background& b = options.background[i];
    if (b.from.value >= ranks || b.to.value >= ranks || b.rate.value <= 0 || b.message.count == 0 ||
        options.lanes.lane(b.service_level) == Lanes::kNoLane || !options.topology.nic(b.from, 0) ||
        !options.topology.nic(b.to, 0)) {
      return fail(ErrorCode::invalid_argument, "background entry ", i, ": from rank ", b.from.value,
                  " to rank ", b.to.value, " of ", ranks, ", ", b.rate.value,
                  " B/s in messages of ", b.message.count, " B at service level ", b.service_level);
    }
  }
  for (std::size_t i = 0; i < options.faults.faults.size(); ++i) {
    const Fault& fault = options.faults.faults[i];
    const bool on_link = fault.kind == FaultKind::link_down;
    if (on_link ? fault.link.value >= options.topology.links().size() : fault.rank.value >= ranks) {
      return fail(ErrorCode::invalid_argument, "fault ", i, " (", name_of(fault.kind),
                  "): ", on_link ? "link " : "rank ", on_link ? fault.link.value : fault.rank.value,
                  " of ", on_link ? options.topology.links().size() : ranks);
    }
    if (fault.kind == FaultKind::rank_slow && !(fault.factor >= 1)) {
      return fail(ErrorCode::invalid_argument, "fault ", i, " (rank_slow): factor ", fault.factor,
                  "; at least 1 is accepted");
    }
  }
  const model::CongestionProfile& dcqcn = options.profile.congestion;
  if (options.congestion == Congestion::dcqcn &&
      (dcqcn.alpha_interval <= Nanos{0} || dcqcn.step_interval <= Nanos{0} ||
       dcqcn.step_bytes.count == 0 || dcqcn.mark_full <= dcqcn.mark_from ||
       dcqcn.additive_rate.value <= 0)) {
    return fail(ErrorCode::invalid_argument, "profile \"", options.profile.name,
                "\": congestion control needs intervals, step_bytes and additive_rate above 0 and "
                "mark_full above mark_from; congestion is alpha_interval ",
                dcqcn.alpha_interval.count(), " ns, step_interval ", dcqcn.step_interval.count(),
                " ns, step_bytes ", dcqcn.step_bytes.count, ", mark_from ", dcqcn.mark_from.count,
                ", mark_full ", dcqcn.mark_full.count, ", additive_rate ",
                dcqcn.additive_rate.value, " B/s");
  }
  return {};
}

}  // namespace engram::sim
