#include "engram/model/topology_text.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "engram/model/quantity.hpp"

namespace engram::model {
namespace {

std::string_view name_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::nic:
      return "NIC";
    case VertexKind::leaf:
      return "leaf";
    case VertexKind::spine:
      return "spine";
    case VertexKind::other_switch:
      return "switch";
  }
  return "?";
}

/// "a, b, c" up to four names, else "a … d (4)".
std::string folded(const std::vector<std::string>& names) {
  if (names.size() <= 4) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} … {} ({})", names.front(), names.back(), names.size());
}

/// Neighbours of `at`, with the number of parallel links to each; in order of their index.
std::map<std::uint32_t, std::vector<LinkIndex>> neighbours(const Topology& t, VertexIndex at) {
  std::map<std::uint32_t, std::vector<LinkIndex>> result;
  for (const LinkIndex link : t.links_out(at))
    result[t.links()[link.value].to.value].push_back(link);
  return result;
}

/// The lines of a switch: what it is joined to, folded by kind, link count and rate.
std::string switch_lines(const Topology& t, std::uint32_t at, const std::string& indent) {
  std::map<std::string, std::vector<std::string>> groups;  // how -> who
  for (const auto& [to, links] : neighbours(t, {at})) {
    const Link& link = t.links()[links.front().value];
    const std::string parallel = links.size() > 1 ? fmt::format("{} x ", links.size()) : "";
    groups[fmt::format("{}: {{}} at {}{}, {}", name_of(t.vertices()[to].kind), parallel,
                       to_text(link.rate), to_text(link.latency))]
        .push_back(t.vertices()[to].name);
  }
  std::string text;
  std::size_t left = groups.size();
  for (const auto& [how, who] : groups) {
    text +=
        indent + (--left > 0 ? "├─ " : "└─ ") + fmt::format(fmt::runtime(how), folded(who)) + "\n";
  }
  return text;
}

std::string count_text(const Topology& t, std::uint32_t plane) {
  std::map<VertexKind, std::size_t> count;
  for (const Vertex& v : t.vertices()) {
    if (v.plane == plane) ++count[v.kind];
  }
  std::vector<std::string> parts;
  for (const VertexKind kind :
       {VertexKind::spine, VertexKind::leaf, VertexKind::other_switch, VertexKind::nic}) {
    if (count[kind] == 0) continue;
    const char* plural = kind == VertexKind::leaf           ? "leaves"
                         : kind == VertexKind::spine        ? "spines"
                         : kind == VertexKind::other_switch ? "switches"
                                                            : "NICs";
    parts.push_back(fmt::format("{} {}", count[kind], count[kind] == 1 ? name_of(kind) : plural));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string topology_tree(const Topology& t) {
  std::string text;
  for (std::uint32_t plane = 0; plane < t.num_planes(); ++plane) {
    text += fmt::format("plane {}: {}\n", plane, count_text(t, plane));
    std::vector<std::uint32_t> order;
    for (const VertexKind kind : {VertexKind::spine, VertexKind::other_switch, VertexKind::leaf}) {
      for (std::uint32_t v = 0; v < t.vertices().size(); ++v) {
        if (t.vertices()[v].plane == plane && t.vertices()[v].kind == kind) order.push_back(v);
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool last = i + 1 == order.size();
      const Vertex& v = t.vertices()[order[i]];
      text += fmt::format("{} {} {}\n", last ? "└─" : "├─", name_of(v.kind), v.name);
      text += switch_lines(t, order[i], last ? "   " : "│  ");
    }
  }
  return text;
}

std::string topology_table(const Topology& t, std::span<const double> busy) {
  require(busy.empty() || busy.size() == t.links().size(), "one load a link");
  std::vector<std::vector<std::string>> rows{{"from", "to", "links", "rate", "latency"}};
  if (!busy.empty()) rows[0].push_back("busy");
  rows[0].push_back("name");
  for (std::uint32_t v = 0; v < t.vertices().size(); ++v) {
    for (const auto& [to, links] : neighbours(t, {v})) {
      const Link& link = t.links()[links.front().value];
      rows.push_back({t.vertices()[v].name, t.vertices()[to].name, std::to_string(links.size()),
                      to_text(link.rate), to_text(link.latency)});
      double most = 0;
      for (const LinkIndex l : links) most = std::max(most, busy.empty() ? 0 : busy[l.value]);
      if (!busy.empty()) rows.back().push_back(fmt::format("{:.1f} %", 100 * most));
      const std::string& last = t.links()[links.back().value].name;
      rows.back().push_back(links.size() == 1 ? link.name : link.name + " .. " + last);
    }
  }
  std::vector<std::size_t> width(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      // Names are read from their start, numbers compared at their end.
      text += c < 2 || c + 1 == row.size() ? fmt::format("{:<{}}  ", row[c], width[c])
                                           : fmt::format("{:>{}}  ", row[c], width[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace engram::model
