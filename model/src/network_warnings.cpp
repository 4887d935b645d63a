#include "engram/model/network_warnings.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>

namespace engram::model {

std::vector<std::string> idle_plane_warnings(const Topology& topology,
                                             std::span<const Flow> flows) {
  std::vector<std::string> list;
  for (std::uint32_t plane = 0; plane < topology.num_planes() && !flows.empty(); ++plane) {
    if (std::ranges::none_of(flows, [&](const Flow& f) { return f.plane == plane; })) {
      list.push_back(
          fmt::format("plane {} of {} carries no traffic", plane, topology.num_planes()));
    }
  }
  return list;
}

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

std::vector<std::string> mtu_warnings(std::span<const MtuSetting> settings) {
  std::vector<std::string> list;
  if (settings.empty()) return list;
  const auto& largest = *std::ranges::max_element(settings, {}, &MtuSetting::bytes);
  for (const MtuSetting& setting : settings) {
    if (setting.bytes == largest.bytes) continue;
    list.push_back(
        fmt::format("MTU of {} is {} B but that of {} is {} B: packets between them carry "
                    "{} B at most",
                    setting.where, setting.bytes, largest.where, largest.bytes, setting.bytes));
  }
  return list;
}

}  // namespace engram::model
