#include "engram/model/lanes.hpp"

#include <algorithm>

namespace engram::model {

LaneConfig::LaneConfig() : lane_of_(kServiceLevels, 0u), weights_{1} {}

Result<LaneConfig> LaneConfig::create(const std::map<std::uint32_t, std::uint32_t>& lane_of,
                                      const std::map<std::uint32_t, std::uint32_t>& weight_of) {
  if (lane_of.empty() || weight_of.empty()) {
    return fail(ErrorCode::invalid_argument, lane_of.size(), " service levels are mapped and ",
                weight_of.size(), " lanes have a weight; at least one of each is needed");
  }
  LaneConfig config;
  config.weights_.assign(weight_of.rbegin()->first < kMaxLanes ? weight_of.rbegin()->first + 1 : 0,
                         0);
  for (const auto& [lane, weight] : weight_of) {
    if (lane >= kMaxLanes) {
      return fail(ErrorCode::invalid_argument, "lane ", lane, ": lanes are 0 to ", kMaxLanes - 1);
    }
    if (weight == 0 || weight > kMaxLaneWeight) {
      return fail(ErrorCode::invalid_argument, "lane ", lane, " has weight ", weight,
                  "; weights are 1 to ", kMaxLaneWeight);
    }
    config.weights_[lane] = weight;
  }
  config.lane_of_.assign(kServiceLevels, std::nullopt);
  for (const auto& [level, lane] : lane_of) {
    if (level >= kServiceLevels) {
      return fail(ErrorCode::invalid_argument, "service level ", level, ": levels are 0 to ",
                  kServiceLevels - 1);
    }
    if (!weight_of.contains(lane)) {
      return fail(ErrorCode::invalid_argument, "service level ", level, " is mapped to lane ", lane,
                  ", which has no weight");
    }
    config.lane_of_[level] = lane;
  }
  return config;
}

std::optional<std::uint32_t> LaneConfig::lane(std::uint32_t service_level) const {
  return service_level < lane_of_.size() ? lane_of_[service_level] : std::nullopt;
}

std::uint32_t LaneConfig::weight(std::uint32_t lane) const {
  require(lane < weights_.size(), "weight of a lane that does not exist");
  return weights_[lane];
}

double LaneConfig::share(std::uint32_t lane, const std::vector<std::uint32_t>& busy) const {
  double all = 0;
  for (const std::uint32_t other : busy) all += weight(other);
  require(std::ranges::find(busy, lane) != busy.end(), "share of a lane that is not busy");
  return weight(lane) / all;
}

std::vector<std::string> LaneConfig::warnings() const {
  std::vector<std::string> list;
  for (std::uint32_t lane = 0; lane < weights_.size(); ++lane) {
    if (weights_[lane] > 0 && std::ranges::find(lane_of_, std::optional(lane)) == lane_of_.end()) {
      list.push_back(fmt::format("lane {} has weight {} but no service level is mapped to it", lane,
                                 weights_[lane]));
    }
  }
  return list;
}

}  // namespace engram::model
