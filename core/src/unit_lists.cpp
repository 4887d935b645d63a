#include "engram/core/unit_lists.hpp"

#include <algorithm>
#include <limits>

#include "engram/core/result.hpp"

namespace engram::core {

UnitLists::UnitLists(const FetchPlan& plan, std::span<const RoutedRead> reads, std::uint32_t layers)
    : num_qps_(plan.num_qps), units_per_qp_(plan.units_per_qp()) {
  require(reads.size() < std::numeric_limits<std::uint32_t>::max(), "reads have 32-bit numbers");
  const std::size_t per_layer = layers == 0 ? 0 : reads.size() / layers;
  const std::size_t lists_per_layer = std::size_t{num_qps_} * units_per_qp_;
  // visit(list, read of its layer) for each network read, in order. A chunk has one QP and share.
  const auto for_each = [&](auto&& visit) {
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::span<const RoutedRead> in_layer = reads.subspan(layer * per_layer, per_layer);
      for (std::size_t base = 0; base < per_layer; base += plan.chunk) {
        const UnitPlace first = unit_of(plan, base, 0);
        const std::size_t list =
            layer * lists_per_layer + std::size_t{first.qp} * units_per_qp_ + first.unit;
        const std::size_t end = std::min<std::size_t>(per_layer, base + plan.chunk);
        for (std::size_t i = base; i < end; ++i) {
          // As in a scan, what is for no peer of the team is no unit's.
          const bool found = in_layer[i].path == Path::rdma && in_layer[i].peer < plan.num_peers;
          if (found) visit(list + in_layer[i].peer, i);
        }
      }
    }
  };
  // A counting sort. begin_[list + 2] counts list's reads; summed up, begin_[list + 1] is where its
  // next one goes, which ends as where the list after it begins.
  begin_.assign(layers * lists_per_layer + 2, 0);
  for_each([&](std::size_t list, std::size_t) { ++begin_[list + 2]; });
  for (std::size_t at = 2; at < begin_.size(); ++at) begin_[at] += begin_[at - 1];
  reads_.resize(begin_.back());
  for_each([&](std::size_t list, std::size_t read) {
    reads_[begin_[list + 1]++] = static_cast<std::uint32_t>(read);
  });
  begin_.pop_back();
}

}  // namespace engram::core
