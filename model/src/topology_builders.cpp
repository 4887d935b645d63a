#include "engram/model/topology_builders.hpp"

#include <algorithm>

namespace engram::model {
namespace {

constexpr std::uint64_t kMaxRanks = 1u << 20;
constexpr std::uint32_t kHalfSwitch = 32;  // ports of a 64-port switch that point down

/// Collects the vertices and links of regular networks.
class Builder {
 public:
  Builder(const Cluster& cluster, const Profile& profile)
      : cluster_(cluster),
        rate_{profile.nic.port.value * profile.nic.ports / cluster.planes},
        cable_(profile.network.cable_latency),
        hop_(profile.network.hop_latency) {}

  VertexIndex add_switch(VertexKind kind, std::uint32_t plane, const std::string& name) {
    return add({prefix(plane) + name, kind, plane, std::nullopt});
  }

  void add_nic(std::uint32_t rank, std::uint32_t plane, VertexIndex leaf) {
    const auto nic =
        add({prefix(plane) + "nic" + std::to_string(rank), VertexKind::nic, plane, Rank{rank}});
    cable(nic, leaf, 1);
  }

  void cable(VertexIndex a, VertexIndex b, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string copy = count > 1 ? "#" + std::to_string(i) : "";
      link(a, b, copy);
      link(b, a, copy);
    }
  }

  [[nodiscard]] Result<Topology> build() {
    return Topology::create(std::move(vertices_), std::move(links_));
  }

 private:
  VertexIndex add(Vertex vertex) {
    vertices_.push_back(std::move(vertex));
    return {static_cast<std::uint32_t>(vertices_.size() - 1)};
  }

  void link(VertexIndex from, VertexIndex to, const std::string& copy) {
    const Vertex& end = vertices_[to.value];
    const Nanos latency = cable_ + (end.kind == VertexKind::nic ? Nanos{0} : hop_);
    links_.push_back(
        {vertices_[from.value].name + "->" + end.name + copy, from, to, rate_, latency});
  }

  [[nodiscard]] std::string prefix(std::uint32_t plane) const {
    return cluster_.planes > 1 ? "p" + std::to_string(plane) + "." : "";
  }

  const Cluster& cluster_;
  BytesPerSecond rate_;
  Nanos cable_, hop_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

std::uint64_t num_gpu_ranks(const Cluster& c) { return std::uint64_t{c.nodes} * c.gpus_per_node; }

Result<void> check(const Cluster& c, const Profile& profile) {
  const std::uint64_t ranks = num_gpu_ranks(c) + c.memory_nodes;
  if (ranks == 0 || ranks > kMaxRanks || c.planes == 0 || c.planes > 64) {
    return fail(ErrorCode::invalid_argument, c.nodes, " nodes of ", c.gpus_per_node, " GPUs and ",
                c.memory_nodes, " memory nodes on ", c.planes, " planes: between 1 and ", kMaxRanks,
                " ranks and between 1 and 64 planes are possible");
  }
  if (!(profile.nic.port.value > 0) || profile.nic.ports == 0) {
    return fail(ErrorCode::invalid_argument, "profile \"", profile.name, "\" has no NIC port (",
                profile.nic.ports, " of ", profile.nic.port.value, " B/s), so there is no network");
  }
  return {};
}

/// Cables from a leaf with `ports_below` to each spine.
Result<std::uint32_t> uplinks(const Cluster& c, std::uint32_t ports_below) {
  if (c.uplinks_per_spine > 0) return c.uplinks_per_spine;
  if (ports_below > c.spines && ports_below % c.spines != 0) {
    return fail(ErrorCode::invalid_argument, ports_below, " ports below a leaf do not divide over ",
                c.spines, " spines; change spines or nodes_per_leaf, or set uplinks_per_spine");
  }
  return std::max(1u, ports_below / c.spines);
}

/// Nodes that share a leaf with `ports_per_node` of each; see Cluster::nodes_per_leaf.
std::uint32_t nodes_per_leaf(const Cluster& c, std::uint32_t ports_per_node, bool want_two_leaves) {
  if (c.nodes_per_leaf > 0) return std::min(c.nodes, c.nodes_per_leaf);
  for (std::uint32_t n = std::min(c.nodes, std::max(1u, kHalfSwitch / ports_per_node)); n > 1;
       --n) {
    const bool fits = c.nodes % n == 0 && (!want_two_leaves || n < c.nodes);
    if (fits && uplinks(c, n * ports_per_node)) return n;
  }
  return 1;
}

struct Level {
  std::vector<VertexIndex> spines;
  std::uint32_t uplinks = 1;
};

/// Memory nodes fill leaves of their own, `ports_below` on each.
void add_memory_leaves(Builder& b, const Cluster& c, std::uint32_t plane, const Level& top,
                       std::uint32_t ports_below) {
  VertexIndex leaf;
  for (std::uint32_t m = 0; m < c.memory_nodes; ++m) {
    if (m % ports_below == 0) {
      leaf = b.add_switch(VertexKind::leaf, plane, "memleaf" + std::to_string(m / ports_below));
      for (const VertexIndex spine : top.spines) b.cable(leaf, spine, top.uplinks);
    }
    b.add_nic(static_cast<std::uint32_t>(num_gpu_ranks(c)) + m, plane, leaf);
  }
}

/// Leaves of one plane, each with its ranks, below a full set of spines.
Result<Topology> two_levels(const Cluster& c, const Profile& profile,
                            const std::vector<std::vector<std::uint32_t>>& ranks_of_leaf) {
  const auto ports_below = ranks_of_leaf.empty()
                               ? std::max(1u, std::min(c.memory_nodes, kHalfSwitch))
                               : static_cast<std::uint32_t>(ranks_of_leaf.front().size());
  const auto count = uplinks(c, ports_below);
  if (!count) return tl::unexpected(count.error());
  Builder b(c, profile);
  for (std::uint32_t plane = 0; plane < c.planes; ++plane) {
    Level top{{}, *count};
    for (std::uint32_t s = 0; s < c.spines; ++s) {
      top.spines.push_back(b.add_switch(VertexKind::spine, plane, "spine" + std::to_string(s)));
    }
    for (std::size_t l = 0; l < ranks_of_leaf.size(); ++l) {
      const auto leaf = b.add_switch(VertexKind::leaf, plane, "leaf" + std::to_string(l));
      for (const VertexIndex spine : top.spines) b.cable(leaf, spine, top.uplinks);
      for (const std::uint32_t rank : ranks_of_leaf[l]) b.add_nic(rank, plane, leaf);
    }
    add_memory_leaves(b, c, plane, top, ports_below);
  }
  return b.build();
}

Result<void> check_two_levels(const Cluster& c, const Profile& profile) {
  if (auto ok = check(c, profile); !ok) return ok;
  if (c.spines == 0) {
    return fail(ErrorCode::invalid_argument, "0 spines: leaves would not be connected");
  }
  return {};
}

}  // namespace

Result<Topology> single_switch(const Cluster& cluster, const Profile& profile) {
  if (auto ok = check(cluster, profile); !ok) return tl::unexpected(ok.error());
  Builder b(cluster, profile);
  const auto ranks = static_cast<std::uint32_t>(num_gpu_ranks(cluster)) + cluster.memory_nodes;
  for (std::uint32_t plane = 0; plane < cluster.planes; ++plane) {
    const auto leaf = b.add_switch(VertexKind::leaf, plane, "switch");
    for (std::uint32_t rank = 0; rank < ranks; ++rank) b.add_nic(rank, plane, leaf);
  }
  return b.build();
}

Result<Topology> leaf_spine(const Cluster& cluster, const Profile& profile) {
  if (auto ok = check_two_levels(cluster, profile); !ok) return tl::unexpected(ok.error());
  std::vector<std::vector<std::uint32_t>> ranks_of_leaf;
  if (num_gpu_ranks(cluster) > 0) {
    const std::uint32_t share = nodes_per_leaf(cluster, cluster.gpus_per_node, true);
    const std::uint32_t below = share * cluster.gpus_per_node;
    ranks_of_leaf.resize((cluster.nodes + share - 1) / share);
    for (std::uint32_t rank = 0; rank < num_gpu_ranks(cluster); ++rank) {
      ranks_of_leaf[rank / below].push_back(rank);
    }
  }
  return two_levels(cluster, profile, ranks_of_leaf);
}

Result<Topology> rails(const Cluster& cluster, const Profile& profile) {
  if (auto ok = check_two_levels(cluster, profile); !ok) return tl::unexpected(ok.error());
  std::vector<std::vector<std::uint32_t>> ranks_of_leaf;
  if (num_gpu_ranks(cluster) > 0) {
    const std::uint32_t share = nodes_per_leaf(cluster, 1, false);
    ranks_of_leaf.resize((cluster.nodes + share - 1) / share * cluster.gpus_per_node);
    for (std::uint32_t rank = 0; rank < num_gpu_ranks(cluster); ++rank) {
      const std::uint32_t node = rank / cluster.gpus_per_node, rail = rank % cluster.gpus_per_node;
      ranks_of_leaf[node / share * cluster.gpus_per_node + rail].push_back(rank);
    }
  }
  return two_levels(cluster, profile, ranks_of_leaf);
}

}  // namespace engram::model
