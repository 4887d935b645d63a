// Network reads sorted by the unit that posts them, so that no unit looks at another's.
//
// A scan costs each peer's unit a look at all reads of its QP: right for a GPU, whose warps do it
// side by side, and quadratic for a host that plays thousands of ranks with hundreds of peers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/core/fetch_protocol.hpp"

namespace engram::core {

/// Which unit of which QP posts read `i` of a layer to `peer`: the inverse of first_read().
struct UnitPlace {
  std::uint32_t qp = 0, unit = 0;
};
[[nodiscard]] constexpr UnitPlace unit_of(const FetchPlan& plan, std::uint64_t i,
                                          std::uint32_t peer) {
  const std::uint64_t chunk = i / plan.chunk, round = chunk / plan.num_qps;
  const std::uint64_t qp = (chunk + plan.num_qps - round % plan.num_qps) % plan.num_qps;
  const std::uint64_t share = round % plan.units_per_peer;
  return {static_cast<std::uint32_t>(qp),
          static_cast<std::uint32_t>(share) * plan.num_peers + peer};
}

/// For each (layer, QP, unit) its reads in ascending order.
class UnitLists {
 public:
  UnitLists() = default;
  /// `reads`: [layers, per_layer], routed; only those of Path::rdma are listed.
  UnitLists(const FetchPlan& plan, std::span<const RoutedRead> reads, std::uint32_t layers);

  [[nodiscard]] UnitReads of(std::uint32_t layer, std::uint32_t qp, std::uint32_t unit) const {
    const std::size_t list = (std::size_t{layer} * num_qps_ + qp) * units_per_qp_ + unit;
    return {reads_.data() + begin_[list], begin_[list + 1] - begin_[list]};
  }

 private:
  std::uint32_t num_qps_ = 0, units_per_qp_ = 0;
  std::vector<std::uint32_t> reads_, begin_;  // begin_: [layers * QPs * units + 1], in reads_
};

}  // namespace engram::core
