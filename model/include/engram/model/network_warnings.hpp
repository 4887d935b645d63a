// NICs that silently cost bandwidth, as sentences; none when all is well.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace engram::model {

/// A NIC that several ranks of a node use, while another NIC of the node is used by none, or at all
/// if there is no other. `nic_of_rank` names the NIC of each rank of one node; `nics` all of them.
[[nodiscard]] std::vector<std::string> shared_nic_warnings(std::span<const std::string> nic_of_rank,
                                                           std::span<const std::string> nics);

}  // namespace engram::model
