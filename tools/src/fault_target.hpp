// What a fault hits, read from its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engram/model/topology.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

struct RanksTarget {
  std::vector<Rank> ranks;    ///< one; of memory_node_gone all of the node
  std::optional<QpIndex> qp;  ///< nic_error on one QP
};
struct RowTarget {
  LayerIndex layer;
  std::uint64_t row = 0;
};
struct LinkTarget {
  std::string name;
  bool of_switch = false;  ///< `name` is a switch's: all links of it
};
using FaultTarget = std::variant<RanksTarget, RowTarget, LinkTarget>;

/// Errors: invalid_argument, saying what this kind accepts; the caller puts the place in front.
/// Whether a link or a row exists is for whoever knows the network or the table.
[[nodiscard]] Result<FaultTarget> parse_target(const Scenario& scenario, const Fault& fault);

/// What `target` names in `topology`: the link of that name, or all links of the switch. Empty
/// where there is none.
[[nodiscard]] std::vector<model::LinkIndex> links_of(const model::Topology& topology,
                                                     const LinkTarget& target);

}  // namespace engram::tools
