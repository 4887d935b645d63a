// Routing by flow hash: which of equally short links a flow takes, and where flows collide.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/model/topology.hpp"

namespace engram::model {

/// What a switch tells apart: all messages of one QP to one peer are one flow.
struct Flow {
  Rank src, dst;
  QpIndex qp;
  std::uint32_t plane = 0;
  double demand = 1;  ///< bytes a second the flow would like; used by the reports alone
};

/// The same for the same flow and seed on every machine.
[[nodiscard]] std::uint64_t flow_hash(const Flow& flow, std::uint64_t seed);

/// Which of `num_choices` links the switch `at` takes for a flow. The switch enters the choice, so
/// that switches in a row do not repeat it. Precondition: num_choices > 0.
[[nodiscard]] std::uint32_t ecmp_choice(std::uint64_t hash, VertexIndex at,
                                        std::uint32_t num_choices);

/// The links a flow takes, in order. Precondition: both ranks have a port in the flow's plane.
[[nodiscard]] std::vector<LinkIndex> ecmp_path(const Topology& topology, const Flow& flow,
                                               std::uint64_t seed);

/// A link that flows chose though others, as short, had room.
struct Collision {
  LinkIndex link;
  std::vector<std::size_t> flows;  ///< positions in the list of flows
  double load = 0;                 ///< demand over the link's rate; above 1
  double even_load = 0;            ///< the same if the flows were spread evenly over the choices
};

/// Links whose demand exceeds their rate while the equally short links beside them, taken together,
/// are asked for less than that; the worst first.
[[nodiscard]] std::vector<Collision> ecmp_collisions(const Topology& topology,
                                                     std::span<const Flow> flows,
                                                     std::uint64_t seed);

/// The collisions in sentences, at most `limit`, then how many more there are.
[[nodiscard]] std::vector<std::string> collision_warnings(const Topology& topology,
                                                          std::span<const Collision> collisions,
                                                          std::size_t limit = 8);

}  // namespace engram::model
