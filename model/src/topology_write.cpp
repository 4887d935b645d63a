#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engram/model/quantity.hpp"
#include "engram/model/topology_file.hpp"

namespace engram::model {
namespace {

struct Cable {
  const Link *there, *back;
  std::uint32_t count;
};

/// A TOML basic string is written as a JSON string is.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// Short where that is exact, else all digits.
std::string exact(BytesPerSecond rate) {
  const std::string text = to_text(rate);
  const auto back = parse_bandwidth(text);
  return back && *back == rate ? text : fmt::format("{} B/s", rate.value);
}

/// Whether `link` is the `copy`-th of its cable from `from` to `to`; no copy: the only one.
bool is_strand(const Topology& t, const Link& link, VertexIndex from, VertexIndex to,
               const std::string& copy) {
  const auto name = [&](VertexIndex v) { return t.vertices()[v.value].name; };
  return link.from == from && link.to == to && link.name == name(from) + "->" + name(to) + copy;
}

/// All links as the cables that give them in this order, if there are such.
std::optional<std::vector<Cable>> cables_of(const Topology& t) {
  std::vector<Cable> cables;
  const auto links = t.links();
  for (std::size_t i = 0; i < links.size();) {
    const Link& there = links[i];
    const auto pair = [&](std::size_t at, const std::string& copy) {
      return at + 1 < links.size() && is_strand(t, links[at], there.from, there.to, copy) &&
             is_strand(t, links[at + 1], there.to, there.from, copy) &&
             links[at].rate == there.rate && links[at + 1].rate == there.rate &&
             links[at].latency == there.latency && links[at + 1].latency == links[i + 1].latency;
    };
    std::uint32_t count = 0;
    if (pair(i, "")) {
      count = 1;
    } else {
      while (pair(i + 2 * count, "#" + std::to_string(count))) ++count;
      if (count < 2) return {};
    }
    cables.push_back({&there, &links[i + 1], count});
    i += 2 * count;
  }
  return cables;
}

std::string_view kind_of(const Vertex& v) {
  switch (v.kind) {
    case VertexKind::leaf:
      return "leaf";
    case VertexKind::spine:
      return "spine";
    default:
      return "other";
  }
}

}  // namespace

std::string topology_toml(const Topology& t) {
  std::string text, nics;
  for (const Vertex& v : t.vertices()) {
    const std::string plane = v.plane > 0 ? fmt::format("plane = {}\n", v.plane) : "";
    if (v.rank) {
      nics +=
          fmt::format("[[nic]]\nname = {}\nrank = {}\n{}\n", quoted(v.name), v.rank->value, plane);
    } else {
      text += fmt::format("[[switch]]\nname = {}\nkind = \"{}\"\n{}\n", quoted(v.name), kind_of(v),
                          plane);
    }
  }
  text += nics;
  const auto name = [&](VertexIndex v) { return t.vertices()[v.value].name; };
  if (const auto cables = cables_of(t)) {
    for (const auto& [there, back, count] : *cables) {
      text += fmt::format("[[cable]]\nends = [{}, {}]\nrate = \"{}\"\nlatency = \"{}\"\n",
                          quoted(name(there->from)), quoted(name(there->to)), exact(there->rate),
                          to_text(there->latency));
      if (back->latency != there->latency) {
        text += fmt::format("back_latency = \"{}\"\n", to_text(back->latency));
      }
      text += count > 1 ? fmt::format("count = {}\n\n", count) : "\n";
    }
    return text;
  }
  for (const Link& link : t.links()) {
    text +=
        fmt::format("[[link]]\nfrom = {}\nto = {}\nname = {}\nrate = \"{}\"\nlatency = \"{}\"\n\n",
                    quoted(name(link.from)), quoted(name(link.to)), quoted(link.name),
                    exact(link.rate), to_text(link.latency));
  }
  return text;
}

}  // namespace engram::model
