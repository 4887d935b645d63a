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
  std::uint32_t plane = 0;   ///< which of several parallel networks
  std::optional<Rank> rank;  ///< set for a NIC port: the rank that owns it
};

/// One direction of a cable.
struct Link {
  std::string name;
  VertexIndex from, to;
  BytesPerSecond rate{};
  Nanos latency{};  ///< cable plus the delay of the switch it enters
};

/// Vertices and links, immutable once built; next hops are found once, by distance. Only switches
/// forward: a path never runs through a NIC.
class Topology {
 public:
  /// Errors: invalid_argument, naming an unknown vertex, a link without a rate or with a negative
  /// latency, a NIC that cannot reach another of its plane, a rank with two NIC ports in one plane,
  /// a rank on a switch, or the first rank that has no NIC port though a higher one has.
  [[nodiscard]] static Result<Topology> create(std::vector<Vertex> vertices,
                                               std::vector<Link> links);

  [[nodiscard]] std::span<const Vertex> vertices() const { return vertices_; }
  [[nodiscard]] std::span<const Link> links() const { return links_; }
  [[nodiscard]] std::uint32_t num_planes() const { return num_planes_; }  ///< at least 1
  [[nodiscard]] std::uint32_t num_ranks() const { return num_ranks_; }
  /// The NIC port of `rank` in `plane`.
  [[nodiscard]] std::optional<VertexIndex> nic(Rank rank, std::uint32_t plane) const;
  /// Links out of `at` on a shortest path to NIC `destination`; ECMP and adaptive routing pick
  /// among them. Ordered by link index. Empty at the destination itself, and where no path exists
  /// (another plane). Precondition: both are vertices, `destination` is a NIC.
  [[nodiscard]] std::span<const LinkIndex> next_hops(VertexIndex at, VertexIndex destination) const;
  /// All links that leave `at`, ordered by link index.
  [[nodiscard]] std::span<const LinkIndex> links_out(VertexIndex at) const;

 private:
  struct Hops {  // a piece of hops_
    std::uint32_t first = 0, count = 0;
  };
  struct Adjacency {  // links of vertex v: links[first[v]] up to links[first[v + 1]]
    std::vector<std::uint32_t> first;
    std::vector<LinkIndex> links;
    [[nodiscard]] std::span<const LinkIndex> of(std::uint32_t vertex) const {
      return std::span(links).subspan(first[vertex], first[vertex + 1] - first[vertex]);
    }
  };

  Topology() = default;
  [[nodiscard]] Result<void> check_parts();
  [[nodiscard]] Result<void> place_ranks();
  void sort_adjacency();
  void group_nics();
  void find_routes();
  [[nodiscard]] Result<void> check_reachable() const;
  [[nodiscard]] std::span<const LinkIndex> direct(std::uint32_t at, std::uint32_t nic) const;

  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::uint32_t num_planes_ = 1, num_ranks_ = 0;
  std::vector<std::vector<std::optional<VertexIndex>>> nics_;  // [plane][rank]
  Adjacency out_, in_;  // in_ is ordered by the vertex the link comes from, then by link

  // NICs behind the same switches form a group and share their routes but for the last link.
  // Vertices that have a choice own a row; a NIC with one link out needs none.
  std::vector<std::uint32_t> group_;               // [vertex], NICs only
  std::vector<std::uint32_t> example_;             // [group]: one NIC of it
  std::vector<std::optional<std::uint32_t>> row_;  // [vertex]
  std::vector<Hops> routes_;                       // [row][group]
  std::vector<LinkIndex> hops_;
};

}  // namespace engram::model
