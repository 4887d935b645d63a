// Regular networks from a few counts: one switch, leaf and spine, rails.
// A rank has one NIC port in each plane. A NIC's bandwidth (port x ports of its profile) is divided
// evenly over the planes. A link's latency is the cable, plus the switch it enters.
#pragma once

#include <cstdint>

#include "engram/core/result.hpp"
#include "engram/model/profile.hpp"
#include "engram/model/topology.hpp"

namespace engram::model {

struct Cluster {
  std::uint32_t nodes = 1;
  std::uint32_t gpus_per_node = 8;  ///< GPU g of node n is rank n x gpus_per_node + g
  std::uint32_t memory_nodes = 0;   ///< ranks without a GPU, one NIC each, numbered after the GPUs
  std::uint32_t planes = 1;
  std::uint32_t spines = 4;  ///< of one plane
  /// Nodes below one leaf (leaf_spine), or below one set of rail leaves (rails). 0 = the largest
  /// divisor of `nodes` that leaves two or more leaves (leaf_spine: if there are two nodes) and
  /// fills at most half of a 64-port switch. Where a given number does not divide `nodes`, the
  /// last leaf holds fewer.
  std::uint32_t nodes_per_leaf = 0;
  /// Parallel cables from a leaf to one spine. 0 = as many as give a leaf no less upward than
  /// downward: ports below / spines, at least 1.
  std::uint32_t uplinks_per_spine = 0;
};

/// Every port of a plane on one switch.
/// All builders' errors are invalid_argument and name the counts: a zero, more than 2^20 ranks, a
/// NIC without a port, counts that do not divide.
[[nodiscard]] Result<Topology> single_switch(const Cluster& cluster, const Profile& profile);

/// Two levels: all GPUs of a node below one leaf, every leaf cabled to every spine.
[[nodiscard]] Result<Topology> leaf_spine(const Cluster& cluster, const Profile& profile);

/// Two levels: GPU g of each node of a pod below the pod's leaf g, so that ranks of one rail and
/// pod meet at a leaf; every leaf is cabled to every spine. Memory nodes have leaves of their own.
[[nodiscard]] Result<Topology> rails(const Cluster& cluster, const Profile& profile);

}  // namespace engram::model
