// DCQCN: switches mark packets of long queues, receivers notify, senders slow the flow and recover.
//
// Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. A flow is one
// direction of a QP's data, or one entry of background traffic. Marks are set where a packet joins
// a switch's queue: never below mark_from, one in mark_one_in at mark_full, rising linearly between
// them, always above. A flow is notified at most once a notify_interval; a notification travels on
// an empty way (it has a priority of its own). Timers are worked off when a flow's rate is next
// asked for, so a flow at rest costs nothing and keeps no run alive.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "context.hpp"

namespace engram::sim {

class CongestionControl {
 public:
  explicit CongestionControl(const Context& context);

  [[nodiscard]] bool on() const { return on_; }

  /// The slot of flow `key`, made on the first call. `line`: bytes a second that its port takes.
  [[nodiscard]] std::uint32_t flow(std::uint64_t key, std::uint32_t source, std::uint32_t target,
                                   double line);
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t key) const {
    const auto at = slots_.find(key);
    return at == slots_.end() ? std::nullopt : std::optional(at->second);
  }
  /// Whether a packet that joins `queued` bytes at a switch is marked; counts it.
  [[nodiscard]] bool mark(std::uint64_t queued, Chance& chance);
  /// A marked packet of `flow` is at its target. True: the sender is to be told.
  [[nodiscard]] bool notifies(std::uint32_t flow);
  /// The sender has been told.
  void cut(std::uint32_t flow);
  /// Whether packets of `flow` are held back at this instant.
  [[nodiscard]] bool limits(std::uint32_t flow);
  /// The time that `bytes` of `flow` take at its rate; they count as sent.
  [[nodiscard]] Picos pace(std::uint32_t flow, std::uint64_t bytes);

  [[nodiscard]] std::uint32_t source(std::uint32_t flow) const { return flows_[flow].source; }
  [[nodiscard]] std::uint32_t target(std::uint32_t flow) const { return flows_[flow].target; }
  [[nodiscard]] const CongestionCounters& counters() const { return counters_; }

 private:
  struct Flow {
    std::uint32_t source = 0, target = 0;  // vertices
    double line = 0, rate = 0, goal = 0;   // bytes a second
    double alpha = 1;                      // how congested the flow takes its way to be
    bool limited = false;
    Picos notified{-1}, alpha_due{0}, step_due{0};
    std::uint64_t sent = 0;  // since the last step by bytes
    std::uint32_t time_steps = 0, byte_steps = 0;
  };
  void catch_up(Flow& flow);
  void step_up(Flow& flow);

  const Context& context_;
  const model::CongestionProfile& profile_;
  const bool on_;
  std::vector<Flow> flows_;
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;
  CongestionCounters counters_;
};

}  // namespace engram::sim
