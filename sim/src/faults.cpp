#include "faults.hpp"

#include "network.hpp"

namespace engram::sim {

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::link_down:
      return "link_down";
    case FaultKind::rank_dead:
      return "rank_dead";
    case FaultKind::memory_node_gone:
      return "memory_node_gone";
    case FaultKind::rank_slow:
      return "rank_slow";
    case FaultKind::nic_error:
      return "nic_error";
    case FaultKind::delayed_doorbell:
      return "delayed_doorbell";
    case FaultKind::reordered_completions:
      return "reordered_completions";
    case FaultKind::late_visibility:
      return "late_visibility";
  }
  return "";
}

FaultState::FaultState(Context& context)
    : context_(context),
      any_(!context.options.faults.faults.empty()),
      ranks_(any_ ? context.options.topology.num_ranks() : 0),
      applied_(context.options.faults.faults.size()),
      effects_(context.options.faults.faults.size()) {}

void FaultState::schedule(Network& network) {
  const auto& faults = context_.options.faults.faults;
  for (std::uint32_t i = 0; i < faults.size(); ++i) {
    if (faults[i].at <= context_.now) {
      apply(i, true, network);
      applied_[i] = true;
    }
    context_.push(std::max(faults[i].at, context_.now), EventKind::fault_begin, i);
  }
}

void FaultState::on_begin(std::uint32_t index, Network& network) {
  const Fault& fault = context_.options.faults.faults[index];
  if (!applied_[index]) apply(index, true, network);
  if (context_.observer != nullptr) {
    context_.observer->instant({Track::Kind::rank, fault.rank.value, 0}, name_of(fault.kind),
                               context_.now, index);
  }
  const bool dies = fault.kind == FaultKind::rank_dead || fault.kind == FaultKind::memory_node_gone;
  if (fault.until != Picos::max() && !dies) {
    context_.push(std::max(fault.until, context_.now), EventKind::fault_end, index);
  }
  context_.client.fault_began(fault);
}

void FaultState::on_end(std::uint32_t index, Network& network) { apply(index, false, network); }

void FaultState::apply(std::uint32_t index, bool begins, Network& network) {
  const Fault& fault = context_.options.faults.faults[index];
  if (fault.kind == FaultKind::link_down) return network.set_link(fault.link.value, !begins, index);
  OfRank& rank = ranks_[fault.rank.value];
  const Picos delay = begins ? fault.delay : Picos{0};
  const auto set = [&](What what) { rank.by[what] = index; };
  const auto set_delay = [&](What what) {
    set(what);
    rank.delays[what] = delay;
  };
  switch (fault.kind) {
    case FaultKind::link_down:
      break;
    case FaultKind::rank_dead:
    case FaultKind::memory_node_gone:
      set(kDead);
      rank.dead += begins ? 1 : -1;
      break;
    case FaultKind::rank_slow:
      set(kSlow);
      rank.factor = begins ? fault.factor : 1.0;
      break;
    case FaultKind::nic_error:
      set(kErrors);
      rank.errors = begins ? fault.count : 0;
      rank.error_qp = fault.qp;
      break;
    case FaultKind::delayed_doorbell:
      set_delay(kDoorbell);
      break;
    case FaultKind::reordered_completions:
      set_delay(kCompletion);
      break;
    case FaultKind::late_visibility:
      set_delay(kVisibility);
      break;
  }
}

}  // namespace engram::sim
