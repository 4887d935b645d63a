// Service levels and virtual lanes: which lane a message travels on, and how lanes share a wire.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::model {

/// InfiniBand's limits: 16 service levels; 15 data lanes (the sixteenth is management's); weights
/// from 1 to 255. A weight of 0 would starve a lane for ever and is refused.
inline constexpr std::uint32_t kServiceLevels = 16;
inline constexpr std::uint32_t kMaxLanes = 15;
inline constexpr std::uint32_t kMaxLaneWeight = 255;

/// A checked table service level -> lane, and the weight of each lane.
class LaneConfig {
 public:
  /// One lane that carries every service level.
  LaneConfig();

  /// Service levels that `lane_of` leaves out are mapped to no lane.
  /// Errors: invalid_argument, naming the first level, lane or weight that is out of range, or a
  /// level whose lane has no weight; also if either table is empty.
  [[nodiscard]] static Result<LaneConfig> create(
      const std::map<std::uint32_t, std::uint32_t>& lane_of,
      const std::map<std::uint32_t, std::uint32_t>& weight_of);

  /// Nothing for a level that is mapped to no lane: such a message cannot be sent.
  [[nodiscard]] std::optional<std::uint32_t> lane(std::uint32_t service_level) const;
  /// Lanes are numbered 0 up to this; those without a weight in between have weight 0 and are
  /// unused.
  [[nodiscard]] std::uint32_t num_lanes() const {
    return static_cast<std::uint32_t>(weights_.size());
  }
  /// Precondition: lane < num_lanes().
  [[nodiscard]] std::uint32_t weight(std::uint32_t lane) const;
  /// The part of a wire that `lane` gets while all of `busy` have something to send: weight over
  /// the weights of the busy. Precondition: `lane` is among `busy`.
  [[nodiscard]] double share(std::uint32_t lane, const std::vector<std::uint32_t>& busy) const;
  /// "lane 2 has a weight but no service level": settings without effect.
  [[nodiscard]] std::vector<std::string> warnings() const;

  friend bool operator==(const LaneConfig&, const LaneConfig&) = default;

 private:
  std::vector<std::optional<std::uint32_t>> lane_of_;  // [service level]
  std::vector<std::uint32_t> weights_;                 // [lane]
};

}  // namespace engram::model
