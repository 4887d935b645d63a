// Which faults hold at this instant.
#pragma once

#include <cstdint>
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

  [[nodiscard]] bool dead(Rank rank) const { return any_ && ranks_[rank.value].dead > 0; }
  /// `time` as `rank` takes it.
  [[nodiscard]] Picos slowed(Rank rank, Picos time) const {
    if (!any_ || ranks_[rank.value].factor == 1.0) return time;
    return Picos{
        static_cast<std::int64_t>(static_cast<double>(time.count()) * ranks_[rank.value].factor)};
  }
  [[nodiscard]] Picos doorbell_delay(Rank rank) const {
    return any_ ? ranks_[rank.value].doorbell : Picos{0};
  }
  [[nodiscard]] Picos completion_spread(Rank rank) const {
    return any_ ? ranks_[rank.value].completion : Picos{0};
  }
  [[nodiscard]] Picos visibility_delay(Rank rank) const {
    return any_ ? ranks_[rank.value].visibility : Picos{0};
  }
  /// Whether the next request that `rank` starts fails; counts it.
  [[nodiscard]] bool take_nic_error(Rank rank) { return take(&OfRank::errors, rank); }
  [[nodiscard]] bool take_corruption(Rank rank) { return take(&OfRank::corruptions, rank); }

 private:
  struct OfRank {
    int dead = 0;
    double factor = 1.0;
    Picos doorbell{0}, completion{0}, visibility{0};
    std::uint64_t errors = 0, corruptions = 0;
  };
  bool take(std::uint64_t OfRank::*budget, Rank rank) {
    if (!any_ || ranks_[rank.value].*budget == 0) return false;
    --(ranks_[rank.value].*budget);
    return true;
  }
  void apply(const Fault& fault, bool begins, Network& network);

  Context& context_;
  bool any_ = false;
  std::vector<OfRank> ranks_;
  std::vector<bool> applied_;  // [fault]
};

}  // namespace engram::sim
