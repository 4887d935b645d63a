#include "engram/model/topology_file.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include "toml_reader.hpp"

namespace engram::model {
namespace {

/// Reads the arrays of tables of a topology file into vertices and links.
class GraphReader {
 public:
  Result<void> read(const toml::table& file) {
    for (const auto& [key, node] : file) {
      const std::string name(key.str());
      if (name == "switch" || name == "nic" || name == "cable" || name == "link") {
        if (node.is_array_of_tables()) continue;
        return fail(ErrorCode::invalid_argument, place(key.source()), ": ", name, ": write [[",
                    name, "]]");
      }
      const std::vector<std::string> known{"switch", "nic", "cable", "link"};
      return fail(ErrorCode::invalid_argument, place(key.source()), ": ", name,
                  ": no such key; did you mean \"", nearest_name(name, known).value_or("switch"),
                  "\"?");
    }
    // Vertices first: a cable may name one that the file states later.
    return each(file, "switch", &GraphReader::read_switch)
        .and_then([&] { return each(file, "nic", &GraphReader::read_nic); })
        .and_then([&] { return each(file, "cable", &GraphReader::read_cable); })
        .and_then([&] { return each(file, "link", &GraphReader::read_link); });
  }

  std::vector<Vertex> vertices;
  std::vector<Link> links;

 private:
  using Read = void (GraphReader::*)(const toml::table&, TableReader&);

  Result<void> each(const toml::table& file, const std::string& name, Read one) {
    const auto* tables = file[name].as_array();
    for (std::size_t i = 0; tables && i < tables->size(); ++i) {
      const auto& table = *(*tables)[i].as_table();
      TableReader reader(table, name);
      (this->*one)(table, reader);
      if (auto ok = reader.done(); !ok) return ok;
    }
    return {};
  }

  void read_switch(const toml::table&, TableReader& in) {
    const std::string kind = in.text("kind", "other");
    Vertex v{in.text("name"), VertexKind::other_switch, in.count("plane", 0), std::nullopt};
    if (kind == "leaf")
      v.kind = VertexKind::leaf;
    else if (kind == "spine")
      v.kind = VertexKind::spine;
    else if (kind != "other")
      in.refuse("kind", "\"" + kind + "\" is not leaf, spine or other");
    add(std::move(v), in);
  }

  void read_nic(const toml::table&, TableReader& in) {
    add({in.text("name"), VertexKind::nic, in.count("plane", 0), Rank{in.count("rank")}}, in);
  }

  void add(Vertex v, TableReader& in) {
    if (!index_.emplace(v.name, vertices.size()).second) {
      in.refuse("name", "\"" + v.name + "\" is taken");
    }
    vertices.push_back(std::move(v));
  }

  void read_cable(const toml::table& table, TableReader& in) {
    const auto* ends = table["ends"].as_array();
    in.expect("ends");
    if (!ends || ends->size() != 2 || !ends->is_homogeneous<std::string>()) {
      in.refuse("ends", "expected two names");
      return;
    }
    const auto a = find((*ends)[0].as_string()->get(), "ends", in);
    const auto b = find((*ends)[1].as_string()->get(), "ends", in);
    const auto rate = in.bandwidth("rate");
    const auto latency = in.time("latency");
    const auto back_latency = in.time("back_latency", latency);
    const std::uint32_t count = in.count("count", 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string copy = count > 1 ? "#" + std::to_string(i) : "";
      add_link(a, b, rate, latency, copy);
      add_link(b, a, rate, back_latency, copy);
    }
  }

  void read_link(const toml::table&, TableReader& in) {
    const auto from = find(in.text("from"), "from", in);
    const auto to = find(in.text("to"), "to", in);
    add_link(from, to, in.bandwidth("rate"), in.time("latency"), "");
    const std::string name = in.text("name", "");
    if (!name.empty() && !links.empty()) links.back().name = name;
  }

  VertexIndex find(const std::string& name, std::string_view key, TableReader& in) {
    const auto found = index_.find(name);
    if (found != index_.end()) return {static_cast<std::uint32_t>(found->second)};
    std::vector<std::string> names;
    for (const Vertex& v : vertices) names.push_back(v.name);
    const auto near = nearest_name(name, names);
    in.refuse(key, "no switch or NIC is named \"" + name + "\"" +
                       (near ? "; did you mean \"" + *near + "\"?" : ""));
    return {0};
  }

  void add_link(VertexIndex from, VertexIndex to, BytesPerSecond rate, Nanos latency,
                const std::string& copy) {
    if (from.value >= vertices.size() || to.value >= vertices.size()) return;  // refused above
    links.push_back({vertices[from.value].name + "->" + vertices[to.value].name + copy, from, to,
                     rate, latency});
  }

  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace

Result<Topology> load_topology(const std::string& path) {
  const auto file = read_toml(path);
  if (!file) return tl::unexpected(file.error());
  GraphReader graph;
  if (auto ok = graph.read(*file); !ok) return tl::unexpected(ok.error());
  if (std::ranges::none_of(graph.vertices, [](const Vertex& v) { return v.rank.has_value(); })) {
    return fail(ErrorCode::invalid_argument, path, ":1: names no [[nic]], so that no rank has one");
  }
  auto topology = Topology::create(std::move(graph.vertices), std::move(graph.links));
  if (!topology) return within(topology.error(), path, ":1");
  return topology;
}

Result<TopologyFormat> detect_topology_format(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail(ErrorCode::not_found, path, ": no such file");
  std::string text(1 << 16, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  const auto holds = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (holds("<platform")) return TopologyFormat::simgrid;
  if (holds("<system")) return TopologyFormat::nccl;
  if (holds("switchguid=") || holds("caguid=")) return TopologyFormat::ibnetdiscover;
  if (holds("[[nic]]") || holds("[[switch]]")) return TopologyFormat::toml;
  return fail(
      ErrorCode::invalid_argument, path,
      ":1: neither a topology in TOML ([[switch]], [[nic]], [[cable]]), a SimGrid platform, an "
      "NCCL topology nor the text of ibnetdiscover");
}

Result<ImportedTopology> load_network(const std::string& path) {
  const auto format = detect_topology_format(path);
  if (!format) return tl::unexpected(format.error());
  switch (*format) {
    case TopologyFormat::toml:
      return load_topology(path).map([](Topology topology) {
        return ImportedTopology{std::move(topology), {}};
      });
    case TopologyFormat::simgrid:
      return import_simgrid(path);
    case TopologyFormat::ibnetdiscover:
      return import_ibnetdiscover(path, {});
    case TopologyFormat::nccl:
      return fail(ErrorCode::invalid_argument, path,
                  ":1: NCCL's XML describes the inside of one machine, not a network; accepted: "
                  "our TOML, a SimGrid platform, the text of ibnetdiscover");
  }
  return fail(ErrorCode::internal, "an unknown topology format");
}

}  // namespace engram::model
