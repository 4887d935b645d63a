// The network as a directed graph: NICs, switches, links, and which next hops are equally short.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::model {

using VertexIndex = Index<struct VertexTag>;
using LinkIndex = Index<struct LinkTag>;

enum class VertexKind { nic, leaf, spine, other_switch };

struct Vertex {
  std::string name;
  VertexKind kind = VertexKind::nic;
  std::uint32_t plane = 0;          ///< which of several parallel networks
  std::optional<Rank> rank;         ///< set for a NIC port: the rank that owns it
};

/// One direction of a cable.
struct Link {
  std::string name;
  VertexIndex from, to;
  BytesPerSecond rate{};
  Nanos latency{};  ///< cable plus the delay of the switch it enters
};

/// Vertices and links, immutable once built; next hops are found once, by distance.
class Topology {
 public:
  /// Errors: invalid_argument, naming an unknown vertex, a NIC that cannot reach another of its
  /// plane, or a rank with two NIC ports in one plane.
  [[nodiscard]] static Result<Topology> create(std::vector<Vertex> vertices,
                                               std::vector<Link> links);

  [[nodiscard]] std::span<const Vertex> vertices() const { return vertices_; }
  [[nodiscard]] std::span<const Link> links() const { return links_; }
  [[nodiscard]] std::uint32_t num_planes() const { return num_planes_; }
  [[nodiscard]] std::uint32_t num_ranks() const { return num_ranks_; }
  /// The NIC port of `rank` in `plane`.
  [[nodiscard]] std::optional<VertexIndex> nic(Rank rank, std::uint32_t plane) const;
  /// Links out of `at` on a shortest path to NIC `destination`; ECMP and adaptive routing pick
  /// among them. Ordered by link index.
  [[nodiscard]] std::span<const LinkIndex> next_hops(VertexIndex at, VertexIndex destination) const;

 private:
  Topology() = default;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::uint32_t num_planes_ = 0, num_ranks_ = 0;
  std::vector<std::vector<std::optional<VertexIndex>>> nics_;  // [plane][rank]
  // NICs behind the same switch share their routes: next_hops_[at][group of destination].
  std::vector<std::uint32_t> group_;
  std::vector<std::vector<std::vector<LinkIndex>>> next_hops_;
  std::vector<std::optional<LinkIndex>> last_link_;  // switch -> NIC, the hop that a group lacks
};

}  // namespace engram::model
