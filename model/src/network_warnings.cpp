#include "engram/model/network_warnings.hpp"

#include <fmt/format.h>
#include <map>

namespace engram::model {

std::vector<std::string> shared_nic_warnings(std::span<const std::string> nic_of_rank,
                                             std::span<const std::string> nics) {
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t rank = 0; rank < nic_of_rank.size(); ++rank) {
    users[nic_of_rank[rank]].push_back(rank);
  }
  std::vector<std::string> idle;
  for (const std::string& nic : nics) {
    if (!users.contains(nic)) idle.push_back(nic);
  }
  std::vector<std::string> list;
  for (const auto& [nic, ranks] : users) {
    if (ranks.size() < 2) continue;
    list.push_back(fmt::format(
        "NIC {} is shared by ranks {} of the node{}", nic, fmt::join(ranks, ", "),
        idle.empty() ? std::string()
                     : fmt::format(", while {} is used by none", fmt::join(idle, ", "))));
  }
  return list;
}

}  // namespace engram::model
