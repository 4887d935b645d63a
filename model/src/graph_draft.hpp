// A network under construction by an importer: vertices by name, cables, notes.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engram/model/topology_file.hpp"

namespace engram::model {

class GraphDraft {
 public:
  /// Nothing if the name is taken.
  std::optional<VertexIndex> add(Vertex vertex) {
    const VertexIndex index{static_cast<std::uint32_t>(vertices.size())};
    if (!index_.emplace(vertex.name, index).second) return std::nullopt;
    vertices.push_back(std::move(vertex));
    return index;
  }

  [[nodiscard]] std::optional<VertexIndex> find(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }

  void link(VertexIndex from, VertexIndex to, BytesPerSecond rate, Nanos latency) {
    links.push_back(
        {vertices[from.value].name + "->" + vertices[to.value].name, from, to, rate, latency});
  }

  void cable(VertexIndex a, VertexIndex b, BytesPerSecond rate, Nanos latency) {
    link(a, b, rate, latency);
    link(b, a, rate, latency);
  }

  void note(const std::string& text) {
    if (std::ranges::find(notes, text) == notes.end()) notes.push_back(text);
  }

  /// Switches with a NIC are leaves; parallel links get "#0", "#1"; then the topology is checked.
  [[nodiscard]] Result<ImportedTopology> build(const std::string& path) {
    if (std::ranges::none_of(vertices, [](const Vertex& v) { return v.rank.has_value(); })) {
      return fail(ErrorCode::invalid_argument, path,
                  ":1: names no host or adapter, so that no rank has a NIC");
    }
    std::unordered_map<std::string, int> seen, count;
    for (const Link& l : links) {
      ++count[l.name];
      Vertex& from = vertices[l.from.value];
      const bool to_nic = vertices[l.to.value].kind == VertexKind::nic;
      if (from.kind == VertexKind::other_switch && to_nic) from.kind = VertexKind::leaf;
    }
    for (Link& l : links) {
      if (count[l.name] > 1) l.name += "#" + std::to_string(seen[l.name]++);
    }
    auto topology = Topology::create(std::move(vertices), std::move(links));
    if (!topology) return within(topology.error(), path, ":1");
    return ImportedTopology{*std::move(topology), std::move(notes)};
  }

  std::vector<Vertex> vertices;
  std::vector<Link> links;
  std::vector<std::string> notes;

 private:
  std::unordered_map<std::string, VertexIndex> index_;
};

}  // namespace engram::model
