// Settings that silently cost bandwidth: idle planes, shared NICs, unequal MTUs. Each function
// returns sentences, none when all is well.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engram/model/ecmp.hpp"
#include "engram/model/topology.hpp"

namespace engram::model {

/// Planes of `topology` that no flow uses.
[[nodiscard]] std::vector<std::string> idle_plane_warnings(const Topology& topology,
                                                           std::span<const Flow> flows);

/// A NIC that several ranks of a node use, while another NIC of the node is used by none, or at all
/// if there is no other. `nic_of_rank` names the NIC of each rank of one node; `nics` all of them.
[[nodiscard]] std::vector<std::string> shared_nic_warnings(std::span<const std::string> nic_of_rank,
                                                           std::span<const std::string> nics);

struct MtuSetting {
  std::string where;  ///< "switch leaf0", "NIC of rank 3", "scenario"
  std::uint32_t bytes = 0;
};
/// Settings that differ from the largest; on such a path packets are as small as the smallest.
[[nodiscard]] std::vector<std::string> mtu_warnings(std::span<const MtuSetting> settings);

}  // namespace engram::model
