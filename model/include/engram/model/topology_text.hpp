// A topology for people: as a tree, a table, and a picture.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/model/topology.hpp"

namespace engram::model {

/// Planes, switches from the top, and what hangs below each; like parts are folded ("nic0 … nic7").
[[nodiscard]] std::string topology_tree(const Topology& topology);

/// One row a pair of neighbours (parallel links counted): from, to, links, rate, latency, name
/// (of parallel links the first and the last); a column of load if `busy` is given.
/// `busy`: the part of the time that each link was busy, [num_links], 0 to 1.
[[nodiscard]] std::string topology_table(const Topology& topology,
                                         std::span<const double> busy = {});

struct PictureOptions {
  std::string title;
  std::uint32_t max_nics = 96;  ///< of one plane; above, the NICs of a switch are drawn as one bar
  std::vector<std::string> broken = {};  ///< names of links that were down: dashed, in red
};

/// A self-contained SVG, one band a plane: spines above, then leaves, then NICs. Cables are
/// coloured by the busier of their directions if `busy` is given (as for topology_table), with a
/// legend.
[[nodiscard]] std::string topology_svg(const Topology& topology, std::span<const double> busy = {},
                                       const PictureOptions& options = {});

}  // namespace engram::model
