// Networks from files: our own TOML, and three formats of others.
//
//   [[switch]]                    [[nic]]         [[cable]]                   [[link]]
//   name = "leaf0"                name = "nic0"   ends = ["nic0", "leaf0"]    # one direction
//   kind = "leaf" # spine, other  rank = 0        rate = "50 GB/s"            from, to, rate,
//   plane = 0                     plane = 0       latency = "250 ns"          latency, name
//                                                 back_latency, count = 2
// docs/topology.md explains every key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/model/topology.hpp"

namespace engram::model {

/// A network and what of its file was not understood or had to be guessed, one line each.
struct ImportedTopology {
  Topology topology;
  std::vector<std::string> notes;
};

/// What a format does not state about a link.
struct LinkDefaults {
  Nanos hop_latency{200};   ///< through a switch
  Nanos cable_latency{50};  ///< of one cable
};

/// Reads the TOML above. All importers' errors name FILE:LINE; codes: not_found, invalid_argument,
/// unsupported.
[[nodiscard]] Result<Topology> load_topology(const std::string& path);

/// `topology` in the TOML above, which load_topology() reads back: the same links in the same order
/// under the same names, with exact rates; switches stand before NICs. Cables where all links pair
/// up under the names that cables give, else one [[link]] each.
[[nodiscard]] std::string topology_toml(const Topology& topology);

/// SimGrid platform XML, version 4. Understood: zones (nested), hosts (each a NIC of the next
/// rank), routers, links, routes and zoneRoutes, clusters without a topology (a star around a
/// switch) and fat-tree clusters. SPLITDUPLEX and SHARED links become a cable with the full rate
/// each way (a note says so for SHARED). The points between the links of a route become switches
/// (src/simgrid_routes.hpp); the routes themselves are not kept. Refused: a file without hosts,
/// routes whose links do not follow one another, tori, dragonflies, other elements that carry
/// routes.
[[nodiscard]] Result<ImportedTopology> import_simgrid(const std::string& path);

/// The text that ibnetdiscover prints. A channel adapter is a rank, in the order of the file; parts
/// that no cable joins are planes; a switch with adapters is a leaf. Latencies are not in the file.
/// A rate is lanes x speed ("4xNDR" = 400 Gb/s; up to QDR less the 8b/10b coding).
[[nodiscard]] Result<ImportedTopology> import_ibnetdiscover(const std::string& path,
                                                            const LinkDefaults& defaults);

enum class TopologyFormat { toml, simgrid, nccl, ibnetdiscover };

/// Tells the format by what stands in the file. NCCL's describes one node: see node.hpp.
/// Errors: not_found; invalid_argument, listing the formats.
[[nodiscard]] Result<TopologyFormat> detect_topology_format(const std::string& path);

/// Any of the formats that describe a network, told by what stands in the file.
/// Errors: as above; invalid_argument for NCCL's, which describes one machine.
[[nodiscard]] Result<ImportedTopology> load_network(const std::string& path);

}  // namespace engram::model
