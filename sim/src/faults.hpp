// Which faults hold at this instant.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "context.hpp"

namespace engram::sim {

class Network;

class FaultState {
 public:
  explicit FaultState(Context& context);

  /// Faults that hold from the start do so before the first actor runs; all are announced in time.
  void schedule(Network& network);
  void on_begin(std::uint32_t fault, Network& network);
  void on_end(std::uint32_t fault, Network& network);

  [[nodiscard]] bool dead(Rank rank) {
    return any_ && ranks_[rank.value].dead > 0 && matters(ranks_[rank.value], kDead);
  }
  /// `time` as `rank` takes it.
  [[nodiscard]] Picos slowed(Rank rank, Picos time) {
    if (!any_ || ranks_[rank.value].factor == 1.0) return time;
    (void)matters(ranks_[rank.value], kSlow);
    return Picos{
        static_cast<std::int64_t>(static_cast<double>(time.count()) * ranks_[rank.value].factor)};
  }
  [[nodiscard]] Picos doorbell_delay(Rank rank) { return delay(rank, kDoorbell); }
  [[nodiscard]] Picos completion_spread(Rank rank) { return delay(rank, kCompletion); }
  [[nodiscard]] Picos visibility_delay(Rank rank) { return delay(rank, kVisibility); }
  /// Whether the request that `rank` starts on QP `qp` fails; counts it. A QP that stands for
  /// many (fidelity flow) is any of them.
  [[nodiscard]] bool take_nic_error(Rank rank, QpIndex qp) {
    if (!any_ || ranks_[rank.value].errors == 0) return false;
    OfRank& of = ranks_[rank.value];
    if (of.error_qp && *of.error_qp != qp && qp.value < kFirstBackgroundQp.value) return false;
    --of.errors;
    return matters(of, kErrors);
  }
  /// The entry of the plan that killed `rank`, or kNone; unlike dead(), no effect of it.
  [[nodiscard]] std::uint32_t killer(Rank rank) const {
    return any_ && ranks_[rank.value].dead > 0 ? ranks_[rank.value].by[kDead] : kNone;
  }
  /// The entry that makes `rank`'s NIC fail. Precondition: take_nic_error() told so.
  [[nodiscard]] std::uint32_t breaker(Rank rank) const { return ranks_[rank.value].by[kErrors]; }
  /// How often `fault` (not of a link) changed something.
  [[nodiscard]] std::uint64_t effects(std::uint32_t fault) const { return effects_[fault]; }

 private:
  enum What : std::uint8_t { kDoorbell, kCompletion, kVisibility, kDead, kSlow, kErrors, kWhats };
  struct OfRank {
    int dead = 0;
    double factor = 1.0;
    std::array<Picos, kVisibility + 1> delays{};  // [What]
    std::uint64_t errors = 0;
    std::optional<QpIndex> error_qp;
    std::array<std::uint32_t, kWhats> by{};  // [What]: the fault that set it last
  };
  bool matters(OfRank& rank, What what) {
    ++effects_[rank.by[what]];
    return true;
  }
  Picos delay(Rank rank, What what) {
    if (!any_ || ranks_[rank.value].delays[what] == Picos{0}) return Picos{0};
    (void)matters(ranks_[rank.value], what);
    return ranks_[rank.value].delays[what];
  }
  void apply(std::uint32_t fault, bool begins, Network& network);

  Context& context_;
  bool any_ = false;
  std::vector<OfRank> ranks_;
  std::vector<bool> applied_;           // [fault]
  std::vector<std::uint64_t> effects_;  // [fault]
};

}  // namespace engram::sim
