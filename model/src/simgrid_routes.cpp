#include "simgrid_routes.hpp"

#include <algorithm>
#include <array>

namespace engram::model::simgrid {
namespace {

// Joining two points costs 1; if that makes a loop of a link, as much as many. Never two names.
constexpr std::uint64_t kLoop = 1'000, kNever = 1'000'000'000;

}  // namespace

RouteGraph::RouteGraph(std::uint32_t num_named) : num_named_(num_named) {
  for (std::uint32_t p = 0; p < num_named; ++p) parent_.push_back(p);
}

std::uint32_t RouteGraph::find(std::uint32_t point) const {
  while (parent_[point] != point) point = parent_[point];
  return point;
}

void RouteGraph::lay(const std::string& link, VertexIndex from, VertexIndex to) {
  links_[link] = {{from.value, to.value}, true, true};
  joined_.insert(std::minmax({from.value, to.value}));
}

/// The named one, or the older, stands for both.
void RouteGraph::join(std::uint32_t a, std::uint32_t b) {
  const auto [low, high] = std::minmax({find(a), find(b)});
  if (low == high) return;
  parent_[high] = low;
  std::set<std::pair<std::uint32_t, std::uint32_t>> moved;
  for (const auto& [first, second] : joined_)
    moved.insert(std::minmax({find(first), find(second)}));
  joined_ = std::move(moved);
}

std::uint64_t RouteGraph::cost_of_joining(std::uint32_t a, std::uint32_t b) const {
  const auto [low, high] = std::minmax({find(a), find(b)});
  if (low == high) return 0;
  if (high < num_named_) return kNever;
  return joined_.contains({low, high}) ? kLoop : 1;
}

/// The cheapest way to take its links one after another, each from either end.
RouteGraph::Choice RouteGraph::choose(const Route& route) const {
  const std::size_t n = route.links.size();
  std::vector<const Laid*> laid;
  for (const std::string& name : route.links) laid.push_back(&links_.at(name));
  const auto entry = [&](std::size_t i, std::uint8_t turned) { return laid[i]->ends[turned]; };
  const auto exit = [&](std::size_t i, std::uint8_t turned) { return laid[i]->ends[1 - turned]; };
  // [link][turned]: the least cost up to and from there on, the link itself between.
  std::vector<std::array<std::uint64_t, 2>> before(n), after(n);
  for (const std::uint8_t t : {0, 1}) before[0][t] = cost_of_joining(route.from.value, entry(0, t));
  for (std::size_t i = 1; i < n; ++i) {
    for (const std::uint8_t t : {0, 1}) {
      before[i][t] = std::min(before[i - 1][0] + cost_of_joining(exit(i - 1, 0), entry(i, t)),
                              before[i - 1][1] + cost_of_joining(exit(i - 1, 1), entry(i, t)));
    }
  }
  for (const std::uint8_t t : {0, 1}) {
    after[n - 1][t] = cost_of_joining(exit(n - 1, t), route.to.value);
  }
  for (std::size_t i = n - 1; i-- > 0;) {
    for (const std::uint8_t t : {0, 1}) {
      after[i][t] = std::min(cost_of_joining(exit(i, t), entry(i + 1, 0)) + after[i + 1][0],
                             cost_of_joining(exit(i, t), entry(i + 1, 1)) + after[i + 1][1]);
    }
  }
  Choice choice;
  choice.cost = std::min(before[0][0] + after[0][0], before[0][1] + after[0][1]);
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto step = [&](std::uint8_t t) {
      return i == 0 ? before[0][t]
                    : so_far + cost_of_joining(exit(i - 1, choice.turned[i - 1]), entry(i, t));
    };
    const std::uint8_t turned = step(1) + after[i][1] < step(0) + after[i][0] ? 1 : 0;
    // Of a link that nothing is known of either end will do.
    choice.free |= laid[i]->used && before[i][0] + after[i][0] == before[i][1] + after[i][1];
    so_far = step(turned);
    choice.turned.push_back(turned);
  }
  return choice;
}

void RouteGraph::settle(const Route& route, const Choice& choice) {
  std::uint32_t at = route.from.value;
  for (std::size_t i = 0; i < route.links.size(); ++i) {
    Laid& laid = links_.at(route.links[i]);
    join(at, laid.ends[choice.turned[i]]);
    if (i > 0 && find(at) < num_named_) passed_.insert(find(at));
    at = laid.ends[1 - choice.turned[i]];
    laid.used = true;
  }
  join(at, route.to.value);
  for (const std::string& name : route.links) {
    const Laid& laid = links_.at(name);
    joined_.insert(std::minmax({find(laid.ends[0]), find(laid.ends[1])}));
  }
}

std::vector<std::size_t> RouteGraph::solve() {
  for (const Route& route : pending_) {
    for (const std::string& name : route.links) {
      if (links_.contains(name)) continue;
      const auto point = static_cast<std::uint32_t>(parent_.size());
      parent_.insert(parent_.end(), {point, point + 1});
      links_[name] = {{point, point + 1}};
    }
  }
  std::vector<std::size_t> left, impossible;
  for (std::size_t i = 0; i < pending_.size(); ++i) left.push_back(i);
  bool force = false;
  while (!left.empty()) {
    std::vector<std::size_t> later;
    for (const std::size_t i : left) {
      const Choice choice = choose(pending_[i]);
      if (choice.cost >= kNever) {
        impossible.push_back(i);
      } else if (choice.free && choice.cost > 0 && !force) {
        later.push_back(i);
      } else {
        settle(pending_[i], choice);
        force = false;
      }
    }
    force = later.size() == left.size();
    left = std::move(later);
  }
  std::ranges::sort(impossible);
  return impossible;
}

std::vector<RouteGraph::Cable> RouteGraph::cables() const {
  std::vector<Cable> result;
  for (const auto& [name, laid] : links_) {
    if (!laid.named) result.push_back({name, {find(laid.ends[0]), find(laid.ends[1])}});
  }
  return result;
}

namespace {

/// The switches at points that have no name, made as they are asked for.
class Joints {
 public:
  explicit Joints(GraphDraft& draft)
      : draft_(draft), named_(static_cast<std::uint32_t>(draft.vertices.size())) {}

  VertexIndex at(std::uint32_t point) {
    if (point < named_) return VertexIndex{point};
    const auto [place, is_new] = made_.try_emplace(point);
    if (!is_new) return place->second;
    std::optional<VertexIndex> added;
    while (!added) {  // the file may have a name like that
      added = draft_.add({fmt::format("joint{}", number_++), VertexKind::other_switch, 0, {}});
    }
    return place->second = *added;
  }
  [[nodiscard]] std::size_t count() const { return made_.size(); }

 private:
  GraphDraft& draft_;
  std::uint32_t named_, number_ = 0;
  std::map<std::uint32_t, VertexIndex> made_;
};

/// Moves the cables of `host` to a switch beside it. Answers the switch's name.
std::string put_switch_before(VertexIndex host, GraphDraft& draft) {
  std::string name = draft.vertices[host.value].name + "_ports";
  auto added = draft.add({name, VertexKind::other_switch, 0, {}});
  while (!added) added = draft.add({name += "_", VertexKind::other_switch, 0, {}});
  double rate = 0;
  for (Link& link : draft.links) {
    if (link.from != host && link.to != host) continue;
    if (link.from == host) rate += link.rate.value;
    (link.from == host ? link.from : link.to) = *added;
    link.name = draft.vertices[link.from.value].name + "->" + draft.vertices[link.to.value].name;
  }
  draft.cable(host, *added, BytesPerSecond{rate}, Nanos{0});
  return name;
}

}  // namespace

void lay(const RouteGraph& solved, const std::map<std::string, NamedLink>& links,
         const std::string& path, GraphDraft& draft) {
  Joints joints(draft);
  for (const RouteGraph::Cable& cable : solved.cables()) {
    const NamedLink& link = links.at(cable.link);
    if (cable.ends[0] != cable.ends[1]) {
      draft.cable(joints.at(cable.ends[0]), joints.at(cable.ends[1]), link.rate, link.latency);
      continue;
    }
    draft.note(fmt::format(
        "{}: link \"{}\" is left out: routes go through it and past it, so it lies inside one "
        "switch{}",
        path, cable.link,
        link.fatpipe ? "" : ", which is taken to be faster than what meets there"));
  }
  if (joints.count() > 0) {
    draft.note(
        fmt::format("{}: {} points that the routes do not name are switches here: joint0 "
                    "and on",
                    path, joints.count()));
  }
  for (const std::uint32_t vertex : solved.passed()) {
    if (draft.vertices[vertex].kind != VertexKind::nic) continue;
    const std::string name = draft.vertices[vertex].name;
    draft.note(fmt::format("{}: routes pass host \"{}\": its cables end at a switch beside it, {}",
                           path, name, put_switch_before({vertex}, draft)));
  }
}

}  // namespace engram::model::simgrid
