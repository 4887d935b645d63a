#include "engram/model/ecmp.hpp"

#include <algorithm>
#include <map>

namespace engram::model {
namespace {

/// The finalizer of splitmix64 (Steele et al., 2014): every input bit moves half the output bits.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Calls `step(at, choices, link)` at each vertex on the way.
template <class Step>
void walk(const Topology& topology, const Flow& flow, std::uint64_t seed, Step step) {
  const auto from = topology.nic(flow.src, flow.plane), to = topology.nic(flow.dst, flow.plane);
  require(from && to, "a flow of a rank that has no port in its plane");
  const std::uint64_t hash = flow_hash(flow, seed);
  for (VertexIndex at = *from; at != *to;) {
    const auto choices = topology.next_hops(at, *to);
    require(!choices.empty(), "a topology in which a NIC cannot reach another");
    const auto link = choices[ecmp_choice(hash, at, static_cast<std::uint32_t>(choices.size()))];
    step(at, choices, link);
    at = topology.links()[link.value].to;
  }
}

}  // namespace

std::uint64_t flow_hash(const Flow& flow, std::uint64_t seed) {
  std::uint64_t h = mix(seed);
  h = mix(h ^ (std::uint64_t{flow.src.value} << 32 | flow.dst.value));
  return mix(h ^ (std::uint64_t{flow.qp.value} << 32 | flow.plane));
}

std::uint32_t ecmp_choice(std::uint64_t hash, VertexIndex at, std::uint32_t num_choices) {
  return static_cast<std::uint32_t>(mix(hash ^ mix(at.value)) % num_choices);
}

std::vector<LinkIndex> ecmp_path(const Topology& topology, const Flow& flow, std::uint64_t seed) {
  std::vector<LinkIndex> path;
  walk(topology, flow, seed, [&](VertexIndex, auto, LinkIndex link) { path.push_back(link); });
  return path;
}

std::vector<Collision> ecmp_collisions(const Topology& topology, std::span<const Flow> flows,
                                       std::uint64_t seed) {
  std::map<std::uint32_t, Collision> load_of;  // [link]
  std::map<std::uint32_t, std::vector<LinkIndex>> choices_of;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    walk(topology, flows[i], seed, [&](VertexIndex, auto choices, LinkIndex link) {
      Collision& c = load_of[link.value];
      c.link = link;
      c.flows.push_back(i);
      c.load += flows[i].demand / topology.links()[link.value].rate.value;
      auto& known = choices_of[link.value];
      if (known.size() < choices.size()) known.assign(choices.begin(), choices.end());
    });
  }
  std::vector<Collision> result;
  for (auto& [link, collision] : load_of) {
    const auto& choices = choices_of[link];
    double demand = 0, rate = 0;
    for (const LinkIndex other : choices) {
      const double capacity = topology.links()[other.value].rate.value;
      const auto used = load_of.find(other.value);
      demand += used == load_of.end() ? 0 : used->second.load * capacity;
      rate += capacity;
    }
    collision.even_load = demand / rate;
    constexpr double kRounding = 1e-9;
    if (collision.load > 1 + kRounding && collision.load > collision.even_load + kRounding) {
      result.push_back(collision);
    }
  }
  std::ranges::stable_sort(result, std::greater{}, &Collision::load);
  return result;
}

std::vector<std::string> collision_warnings(const Topology& topology,
                                            std::span<const Collision> collisions,
                                            std::size_t limit) {
  std::vector<std::string> list;
  for (const Collision& c : collisions.first(std::min(limit, collisions.size()))) {
    list.push_back(
        fmt::format("ECMP collision: {} flows chose {}, which is asked for {:.2f} of its rate; "
                    "spread evenly over "
                    "the equally short links it would be {:.2f}",
                    c.flows.size(), topology.links()[c.link.value].name, c.load, c.even_load));
  }
  if (collisions.size() > limit) {
    list.push_back(fmt::format("ECMP collision: {} more links", collisions.size() - limit));
  }
  return list;
}

}  // namespace engram::model
