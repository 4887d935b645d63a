// What becomes of faults: begun, shown by memory, and told at the end.
#include <algorithm>
#include <map>
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
  }
  return "";
}

std::string too_late(sim::Picos at, sim::Picos end) {
  return fmt::format("it begins at {:.3f} us, the run ended at {:.3f} us", sim::to_micros(at),
                     sim::to_micros(end));
}

std::string name_of(const model::Vertex& vertex) {
  switch (vertex.kind) {
    case model::VertexKind::nic:
      return vertex.rank ? fmt::format("NIC of rank {}", vertex.rank->value) : "NIC " + vertex.name;
    case model::VertexKind::leaf:
      return "leaf switch " + vertex.name;
    case model::VertexKind::spine:
      return "spine switch " + vertex.name;
    case model::VertexKind::other_switch:
      return "switch " + vertex.name;
  }
  return vertex.name;
}

/// A few QPs by name, the others counted.
class QpList {
 public:
  void add(const sim::Fabric::QpInfo& qp) {
    if (++count_ > kNamed) return;
    if (count_ > 1) text_ += ", ";
    // Those of background and of fidelity flow have no number that anybody gave.
    const std::string number =
        qp.index < sim::kFirstBackgroundQp ? fmt::format("QP {} ", qp.index.value) : "traffic ";
    text_ += fmt::format("{}of rank {} to rank {}", number, qp.local.value, qp.remote.value);
  }
  void add(const std::vector<sim::Fabric::QpInfo>& qps) {
    for (const auto& qp : qps) add(qp);
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string text() const {
    return count_ <= kNamed ? text_ : fmt::format("{} and {} more", text_, count_ - kNamed);
  }

 private:
  static constexpr std::uint32_t kNamed = 4;
  std::uint32_t count_ = 0;
  std::string text_;
};

}  // namespace

void SimExecutor::fault_began(const sim::Fault& fault) {
  const auto& all = fabric_->options().faults.faults;
  begun_.push_back(static_cast<std::uint32_t>(&fault - all.data()));
}

/// In the words of the scenario, with the ends of a link, whose name may not tell them.
std::string SimExecutor::name_of_fault(std::uint32_t index) const {
  const sim::Fault& fault = options_.fabric.faults.faults[index];
  const model::Topology& topology = options_.fabric.topology;
  std::string of = fmt::format("rank {}", fault.rank.value);
  if (fault.kind == sim::FaultKind::link_down) {
    const model::Link& link = topology.links()[fault.link.value];
    of = fmt::format("link {} ({} to {})", link.name, name_of(topology.vertices()[link.from.value]),
                     name_of(topology.vertices()[link.to.value]));
  } else if (fault.qp) {
    of += fmt::format(" qp {}", fault.qp->value);
  }
  std::string text =
      fmt::format("{} of {} at {} us", sim::name_of(fault.kind), of, sim::to_micros(fault.at));
  if (fault.until != sim::Picos::max()) {
    text += fmt::format(" until {} us", sim::to_micros(fault.until));
  }
  return text;
}

/// "; cause: …": the faults that took something from `rank`'s QPs; where none did, or of no rank,
/// from anybody's. Empty where there was none.
std::string SimExecutor::cause(std::optional<Rank> rank) const {
  std::map<std::uint32_t, QpList> hit;  // by fault
  for (std::uint32_t qp = 0; qp < fabric_->num_qps(); ++qp) {
    const auto trouble = fabric_->trouble(sim::QpId{qp});
    if (!trouble) continue;
    const auto info = fabric_->qp_info(sim::QpId{qp});
    if (rank && info.local != *rank) continue;
    // All links of a switch are one entry of the scenario.
    const auto& faults = options_.fabric.faults.faults;
    const auto entry = std::ranges::find(faults, faults[trouble->fault].label, &sim::Fault::label);
    const bool named = !entry->label.empty();
    hit[named ? static_cast<std::uint32_t>(entry - faults.begin()) : trouble->fault].add(info);
  }
  if (hit.empty()) return rank ? cause(std::nullopt) : "";
  std::string text = "; cause: ";
  for (const auto& [fault, qps] : hit) {
    if (fault != hit.begin()->first) text += "; ";
    text += fmt::format("{}, which hit {}", name_of_fault(fault), qps.text());
  }
  return text;
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
  const sim::Picos end = failed_at_.value_or(engine_->now());
  const auto warn = [&](const std::string& label, std::string_view name, std::string_view why) {
    stats_.warnings.push_back(fmt::format("{}: {} had no effect: {}", label, name, why));
  };
  const auto& faults = options_.fabric.faults.faults;
  std::set<std::string> mattered, told;  // an entry of a scenario may come to several faults
  for (std::uint32_t i = 0; i < faults.size(); ++i) {
    if (fabric_->fault_effects(i) > 0) mattered.insert(faults[i].label);
  }
  for (const sim::Fault& fault : faults) {
    if (mattered.contains(fault.label) || !told.insert(fault.label).second) continue;
    warn(fault.label, sim::name_of(fault.kind),
         fault.at > end ? too_late(fault.at, end) : why_idle(fault));
  }
  using Qps = std::vector<sim::Fabric::QpInfo>;
  std::map<std::uint32_t, Qps> failed, resent;  // by fault
  for (std::uint32_t qp = 0; qp < fabric_->num_qps() && !faults.empty(); ++qp) {
    const auto trouble = fabric_->trouble(sim::QpId{qp});
    if (trouble)
      (trouble->failed ? failed : resent)[trouble->fault].push_back(fabric_->qp_info({qp}));
  }
  // One that hits all links of a switch is told of once.
  std::map<std::string_view, std::size_t> links;  // by label
  for (const std::uint32_t fault : begun_) ++links[faults[fault].label];
  told.clear();
  for (const std::uint32_t fault : begun_) {
    const std::string& label = faults[fault].label;
    const bool many = faults[fault].kind == sim::FaultKind::link_down && links[label] > 1;
    if (many && !told.insert(label).second) continue;
    std::string text = name_of_fault(fault);
    if (many) text += fmt::format(" and of {} more links", links[label] - 1);
    QpList of_resent, of_failed;
    for (const std::uint32_t each : begun_) {
      if (each != fault && !(many && faults[each].label == label)) continue;
      of_resent.add(resent[each]);
      of_failed.add(failed[each]);
    }
    if (!of_resent.empty()) text += "; lost and sent again: " + of_resent.text();
    if (!of_failed.empty()) text += "; failed: " + of_failed.text();
    stats_.faults.push_back(std::move(text));
  }
  for (std::size_t i = 0; i < options_.corrupt_rows.size(); ++i) {
    const CorruptRow& row = options_.corrupt_rows[i];
    if (const std::uint64_t reads = corrupt_rows_.reads(i); reads > 0) {
      stats_.faults.push_back(
          fmt::format("{}: {} {} wrong", row.name, reads, reads == 1 ? "read was" : "reads were"));
    } else {
      warn(row.label, row.name, row.at > end ? too_late(row.at, end) : "nobody read that row");
    }
  }
}

void SimExecutor::report_background() {
  const auto& entries = options_.fabric.background;
  const sim::Picos end = failed_at_.value_or(engine_->now());
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (fabric_->background_messages(i) > 0) continue;
    const std::string why = entries[i].start > end
                                ? too_late(entries[i].start, end)
                                : "nothing of the run was under way between its start and its stop";
    stats_.warnings.push_back(fmt::format("{} has no effect: {}", entries[i].label, why));
  }
}

}  // namespace engram::sim_backend
