#include "engram/model/topology.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace engram::model {
namespace {

constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Result<Topology> Topology::create(std::vector<Vertex> vertices, std::vector<Link> links) {
  Topology t;
  t.vertices_ = std::move(vertices);
  t.links_ = std::move(links);
  if (auto ok = t.check_parts(); !ok) return tl::unexpected(ok.error());
  if (auto ok = t.place_ranks(); !ok) return tl::unexpected(ok.error());
  t.sort_adjacency();
  t.group_nics();
  t.find_routes();
  if (auto ok = t.check_reachable(); !ok) return tl::unexpected(ok.error());
  return t;
}

std::optional<VertexIndex> Topology::nic(Rank rank, std::uint32_t plane) const {
  if (plane >= num_planes_ || rank.value >= num_ranks_) return std::nullopt;
  return nics_[plane][rank.value];
}

std::span<const LinkIndex> Topology::links_out(VertexIndex at) const { return out_.of(at.value); }

std::span<const LinkIndex> Topology::next_hops(VertexIndex at, VertexIndex destination) const {
  require(at.value < vertices_.size() && destination.value < vertices_.size(),
          "next_hops of a vertex that does not exist");
  require(vertices_[destination.value].kind == VertexKind::nic, "next_hops towards a switch");
  if (at == destination) return {};
  if (const auto last = direct(at.value, destination.value); !last.empty()) return last;
  if (row_[at.value]) {
    const Hops hops = routes_[*row_[at.value] * example_.size() + group_[destination.value]];
    return std::span(hops_).subspan(hops.first, hops.count);
  }
  // A NIC with one link out: there is no choice, only the question whether the way leads on.
  const auto only = out_.of(at.value);
  if (only.empty()) return {};
  const VertexIndex next = links_[only[0].value].to;
  if (vertices_[next.value].kind == VertexKind::nic) return {};
  return next_hops(next, destination).empty() ? std::span<const LinkIndex>{} : only;
}

/// Links straight from `at` to `nic`.
std::span<const LinkIndex> Topology::direct(std::uint32_t at, std::uint32_t nic) const {
  const auto in = in_.of(nic);
  const auto range = std::ranges::equal_range(
      in, at, {}, [&](LinkIndex link) { return links_[link.value].from.value; });
  return {range.begin(), range.end()};
}

Result<void> Topology::check_parts() {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    const Link& link = links_[l];
    for (const VertexIndex end : {link.from, link.to}) {
      if (end.value >= vertices_.size()) {
        return fail(ErrorCode::invalid_argument, "link ", l, " \"", link.name, "\" names vertex ",
                    end.value, " of ", vertices_.size());
      }
    }
    const std::string& from = vertices_[link.from.value].name;
    if (link.from == link.to) {
      return fail(ErrorCode::invalid_argument, "link \"", link.name, "\" leads from \"", from,
                  "\" to itself");
    }
    if (!(link.rate.value > 0) || link.latency < Nanos{0}) {
      return fail(ErrorCode::invalid_argument, "link \"", link.name, "\" from \"", from,
                  "\": rate ", link.rate.value, " B/s and latency ", link.latency.count(),
                  " ns; the rate must be above 0 and the latency not below");
    }
  }
  return {};
}

Result<void> Topology::place_ranks() {
  std::size_t num_nics = 0;
  for (const Vertex& v : vertices_) {
    if (v.kind == VertexKind::nic)
      ++num_nics;
    else if (v.rank) {
      return fail(ErrorCode::invalid_argument, "switch \"", v.name, "\" carries rank ",
                  v.rank->value, "; only a NIC port belongs to a rank");
    }
    if (v.plane >= vertices_.size()) {
      return fail(ErrorCode::invalid_argument, "\"", v.name, "\" is in plane ", v.plane,
                  ", but there are only ", vertices_.size(), " vertices");
    }
    num_planes_ = std::max(num_planes_, v.plane + 1);
  }
  for (const Vertex& v : vertices_) {
    if (!v.rank) continue;
    if (v.rank->value >= num_nics) {
      return fail(ErrorCode::invalid_argument, "\"", v.name, "\" belongs to rank ", v.rank->value,
                  ", but ", num_nics, " NIC ports cannot hold ranks 0 to ", v.rank->value);
    }
    num_ranks_ = std::max(num_ranks_, v.rank->value + 1);
  }
  nics_.assign(num_planes_, std::vector<std::optional<VertexIndex>>(num_ranks_));
  std::vector<bool> seen(num_ranks_);
  for (std::uint32_t i = 0; i < vertices_.size(); ++i) {
    const Vertex& v = vertices_[i];
    if (!v.rank) continue;
    auto& place = nics_[v.plane][v.rank->value];
    if (place) {
      return fail(ErrorCode::invalid_argument, "rank ", v.rank->value,
                  " has two NIC ports in plane ", v.plane, ": \"", vertices_[place->value].name,
                  "\" and \"", v.name, "\"");
    }
    place = VertexIndex{i};
    seen[v.rank->value] = true;
  }
  const auto hole = std::ranges::find(seen, false);
  if (hole != seen.end()) {
    return fail(ErrorCode::invalid_argument, "rank ", hole - seen.begin(),
                " has no NIC port, but rank ", num_ranks_ - 1, " has");
  }
  return {};
}

void Topology::sort_adjacency() {
  const auto fill = [&](Adjacency& a, VertexIndex Link::*end) {
    a.first.assign(vertices_.size() + 1, 0);
    for (const Link& link : links_) ++a.first[(link.*end).value + 1];
    for (std::size_t v = 0; v < vertices_.size(); ++v) a.first[v + 1] += a.first[v];
    a.links.resize(links_.size());
    auto next = a.first;
    for (std::uint32_t l = 0; l < links_.size(); ++l) {
      a.links[next[(links_[l].*end).value]++] = LinkIndex{l};
    }
  };
  fill(out_, &Link::from);
  fill(in_, &Link::to);
  for (std::size_t v = 0; v < vertices_.size(); ++v) {
    std::stable_sort(
        in_.links.begin() + in_.first[v], in_.links.begin() + in_.first[v + 1],
        [&](LinkIndex a, LinkIndex b) { return links_[a.value].from < links_[b.value].from; });
  }
}

void Topology::group_nics() {
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;  // the vertices in front -> group
  group_.assign(vertices_.size(), 0);
  row_.assign(vertices_.size(), std::nullopt);
  std::uint32_t num_rows = 0;
  for (std::uint32_t v = 0; v < vertices_.size(); ++v) {
    const bool is_nic = vertices_[v].kind == VertexKind::nic;
    if (!is_nic || out_.of(v).size() > 1) row_[v] = num_rows++;
    if (!is_nic) continue;
    std::vector<std::uint32_t> fronts;
    for (const LinkIndex link : in_.of(v)) {
      const std::uint32_t from = links_[link.value].from.value;
      if (fronts.empty() || fronts.back() != from) fronts.push_back(from);
    }
    const auto [place, is_new] =
        known.try_emplace(std::move(fronts), static_cast<std::uint32_t>(example_.size()));
    if (is_new) example_.push_back(v);
    group_[v] = place->second;
  }
  routes_.assign(std::size_t{num_rows} * example_.size(), {});
}

/// One search backwards from each group. What a group lacks, the last link, is direct()'s part.
void Topology::find_routes() {
  std::vector<std::uint32_t> distance(vertices_.size(), kFar), queue;
  std::vector<LinkIndex> hops;
  std::vector<std::uint32_t> rows;  // vertices with a row
  for (std::uint32_t v = 0; v < vertices_.size(); ++v) {
    if (row_[v]) rows.push_back(v);
  }
  for (std::uint32_t group = 0; group < example_.size(); ++group) {
    queue.clear();
    std::ranges::fill(distance, kFar);
    const auto reach = [&](VertexIndex v, std::uint32_t steps) {
      if (distance[v.value] != kFar) return;
      distance[v.value] = steps;
      if (vertices_[v.value].kind != VertexKind::nic) queue.push_back(v.value);
    };
    for (const LinkIndex link : in_.of(example_[group])) reach(links_[link.value].from, 1);
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const LinkIndex link : in_.of(queue[i])) {
        reach(links_[link.value].from, distance[queue[i]] + 1);
      }
    }
    for (const std::uint32_t v : rows) {
      if (distance[v] == kFar || distance[v] == 1) continue;
      hops.clear();
      for (const LinkIndex link : out_.of(v)) {
        const std::uint32_t next = links_[link.value].to.value;
        const bool forwards = vertices_[next].kind != VertexKind::nic;
        if (forwards && distance[next] == distance[v] - 1) hops.push_back(link);
      }
      Hops& entry = routes_[*row_[v] * example_.size() + group];
      // A leaf reaches most groups by the same links: keep them once.
      const Hops before = group == 0 ? Hops{} : *(&entry - 1);
      if (std::ranges::equal(std::span(hops_).subspan(before.first, before.count), hops)) {
        entry = before;
      } else {
        entry = {static_cast<std::uint32_t>(hops_.size()), static_cast<std::uint32_t>(hops.size())};
        hops_.insert(hops_.end(), hops.begin(), hops.end());
      }
    }
  }
}

Result<void> Topology::check_reachable() const {
  // A group lies in one plane unless a switch joins planes; test one NIC of each (plane, group).
  std::vector<std::map<std::uint32_t, std::vector<std::uint32_t>>> members(num_planes_);
  for (std::uint32_t v = 0; v < vertices_.size(); ++v) {
    if (vertices_[v].kind != VertexKind::nic) continue;
    auto& some = members[vertices_[v].plane][group_[v]];
    if (some.size() < 2) some.push_back(v);  // two: one to test the other's own group with
  }
  for (std::uint32_t v = 0; v < vertices_.size(); ++v) {
    if (vertices_[v].kind != VertexKind::nic) continue;
    for (const auto& [group, some] : members[vertices_[v].plane]) {
      const auto other = std::ranges::find_if(some, [&](std::uint32_t n) { return n != v; });
      if (other == some.end()) continue;
      if (next_hops(VertexIndex{v}, VertexIndex{*other}).empty()) {
        return fail(ErrorCode::invalid_argument, "NIC \"", vertices_[v].name,
                    "\" cannot reach NIC \"", vertices_[*other].name, "\" of its plane ",
                    vertices_[v].plane);
      }
    }
  }
  return {};
}

}  // namespace engram::model
