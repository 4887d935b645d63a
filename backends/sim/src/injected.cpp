// What becomes of faults: begun, shown by memory, and told at the end.
#include <set>

#include "executor.hpp"

namespace engram::sim_backend {
namespace {

/// Why a fault of this kind may change nothing.
std::string why_idle(const sim::Fault& fault) {
  const std::uint32_t rank = fault.rank.value;
  switch (fault.kind) {
    case sim::FaultKind::link_down:
      return "no packet wanted the link meanwhile";
    case sim::FaultKind::rank_dead:
    case sim::FaultKind::memory_node_gone:
      return fmt::format("rank {}'s NIC had nothing to do any more", rank);
    case sim::FaultKind::rank_slow:
      return fmt::format("rank {}'s NIC had nothing to do any more", rank);
    case sim::FaultKind::nic_error:
      if (fault.qp) return fmt::format("rank {} started nothing on QP {}", rank, fault.qp->value);
      return fmt::format("rank {} started no request", rank);
    case sim::FaultKind::delayed_doorbell:
      return fmt::format("rank {} rang no doorbell", rank);
    case sim::FaultKind::reordered_completions:
      return fmt::format("nothing completed at rank {}", rank);
    case sim::FaultKind::late_visibility:
      return fmt::format("no store into or of rank {} was made", rank);
    case sim::FaultKind::corrupted_row:
      return fmt::format("no bytes of rank {}'s memory were read", rank);
  }
  return "";
}

}  // namespace

void SimExecutor::corrupt_next(sim::QpId, const sim::Request&) { corrupt_ = true; }

void SimExecutor::fault_began(const sim::Fault& fault) {
  const std::string of = fault.kind == sim::FaultKind::link_down
                             ? "link " + options_.fabric.topology.links()[fault.link.value].name
                             : fmt::format("rank {}", fault.rank.value);
  stats_.faults.push_back(fmt::format("{} of {} at {} us", sim::name_of(fault.kind), of,
                                      sim::to_micros(engine_->now())));
}

/// A store of the host or of a kernel before: in memory at once, unless a fault keeps it back.
void SimExecutor::store(Rank rank, std::uint64_t offset, std::span<const std::byte> bytes) {
  const sim::Picos late = fabric_->visibility_delay(rank);
  if (late == sim::Picos{0}) {
    return memory_.write(rank, host::Window::storage, memory_.own_segment(rank) + offset, bytes);
  }
  late_stores_.add(rank, offset, bytes, engine_->now() + late);
  fabric_->at(engine_->now() + late, make_tag(TagKind::stores, rank.value));
}

void SimExecutor::settle_stores(Rank rank) {
  late_stores_.settle(rank, engine_->now(), memory_, memory_.own_segment(rank));
}

void SimExecutor::report_faults() {
  const sim::Picos end = engine_->now();
  const auto warn = [&](const std::string& label, std::string_view name, std::string_view why) {
    stats_.warnings.push_back(fmt::format("{}: {} had no effect: {}", label, name, why));
  };
  const auto too_late = [&](sim::Picos at) {
    return fmt::format("it begins at {:.3f} us, the run ended at {:.3f} us", sim::to_micros(at),
                       sim::to_micros(end));
  };
  const auto& faults = options_.fabric.faults.faults;
  std::set<std::string> mattered, told;  // an entry of a scenario may come to several faults
  for (std::uint32_t i = 0; i < faults.size(); ++i) {
    if (fabric_->fault_effects(i) > 0) mattered.insert(faults[i].label);
  }
  for (const sim::Fault& fault : faults) {
    if (mattered.contains(fault.label) || !told.insert(fault.label).second) continue;
    warn(fault.label, sim::name_of(fault.kind),
         fault.at > end ? too_late(fault.at) : why_idle(fault));
  }
  for (std::size_t i = 0; i < options_.corrupt_rows.size(); ++i) {
    const CorruptRow& row = options_.corrupt_rows[i];
    if (corrupt_rows_.reads(i) > 0) {
      stats_.faults.push_back(fmt::format("{}: {} reads", row.name, corrupt_rows_.reads(i)));
    } else {
      warn(row.label, row.name, row.at > end ? too_late(row.at) : "nobody read that row");
    }
  }
}

}  // namespace engram::sim_backend
