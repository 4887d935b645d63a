#include <charconv>
#include <fstream>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "engram/model/topology_file.hpp"
#include "graph_draft.hpp"

namespace engram::model {
namespace {

/// Gb/s of data on one lane: what 8b/10b (to QDR) or 64b/66b coding leaves of the signalling rate.
const std::map<std::string, double> kLaneGigabits{{"SDR", 2},    {"DDR", 4},     {"QDR", 8},
                                                  {"FDR10", 10}, {"FDR", 13.64}, {"EDR", 25},
                                                  {"HDR", 50},   {"NDR", 100},   {"XDR", 200}};

struct Port {
  std::string guid;  // with its kind: "S-…" or "H-…"
  std::uint32_t number = 0;
  auto operator<=>(const Port&) const = default;
};

struct Device {
  std::string guid, name;
  bool is_switch = false;
  int line = 0;
};

struct Cable {
  Port a, b;
  BytesPerSecond rate{};
  int line = 0;
  bool seen_twice = false;
};

class Importer {
 public:
  Importer(std::string path, const LinkDefaults& defaults)
      : path_(std::move(path)), defaults_(defaults) {}

  Result<ImportedTopology> run(std::istream& in) {
    std::string text;
    for (line_ = 1; std::getline(in, text); ++line_) {
      if (auto ok = read_line(text); !ok) return tl::unexpected(ok.error());
    }
    if (devices_.empty()) return fail_here("states no Switch and no Ca");
    for (const auto& [ends, cable] : cables_) {
      if (!cable.seen_twice) {
        draft_.note(fmt::format("{}:{}: the cable of {}[{}] and {}[{}] is stated at one end only",
                                path_, cable.line, cable.a.guid, cable.a.number, cable.b.guid,
                                cable.b.number));
      }
    }
    if (auto ok = place_devices(); !ok) return tl::unexpected(ok.error());
    draft_.note(path_ + ": latencies are not in the file: " +
                fmt::format("{} ns a switch, {} ns a cable", defaults_.hop_latency.count(),
                            defaults_.cable_latency.count()));
    return draft_.build(path_);
  }

 private:
  template <class... Parts>
  tl::unexpected<Error> fail_here(const Parts&... parts) const {
    return engram::fail(ErrorCode::invalid_argument, path_, ":", line_, ": ", parts...);
  }

  Result<void> read_line(const std::string& text) {
    static const std::regex kDevice(R"re(^(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s*(#.*)?$)re");
    static const std::regex kCable(
        R"re(^\[(\d+)\](?:\[ext [^\]]*\])?(?:\([0-9a-fA-F]+\))?\s+"([^"]+)"\[(\d+)\](?:\[ext [^\]]*\])?(?:\([0-9a-fA-F]+\))?\s*#\s*(.*)$)re");
    static const std::regex kIgnored(
        R"re(^\s*$|^\s*#.*|^(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=.*|^Chassis .*|^Non-Chassis Nodes.*|^(Spine|Line) .*)re");
    std::smatch match;
    if (std::regex_match(text, kIgnored)) return {};
    if (std::regex_match(text, match, kDevice)) return read_device(match);
    if (std::regex_match(text, match, kCable)) return read_cable(match);
    return fail_here("\"", text, "\" is no line of ibnetdiscover");
  }

  Result<void> read_device(const std::smatch& match) {
    const std::string guid = match[3];
    const std::string comment = match[4];
    Device device{guid, quoted(comment).value_or(guid), match[1] == "Switch", line_};
    if (match[1] == "Rt") return fail_here("routers between subnets are not understood");
    if (!index_.emplace(guid, devices_.size()).second)
      return fail_here("\"", guid, "\" is stated twice");
    devices_.push_back(std::move(device));
    return {};
  }

  static std::optional<std::string> quoted(const std::string& text) {
    const auto begin = text.find('"');
    const auto end = text.find('"', begin + 1);
    if (begin == std::string::npos || end == std::string::npos || end == begin + 1)
      return std::nullopt;
    return text.substr(begin + 1, end - begin - 1);
  }

  Result<void> read_cable(const std::smatch& match) {
    if (devices_.empty()) return fail_here("a port before any Switch or Ca");
    const Port mine{devices_.back().guid, number(match[1])}, peer{match[2], number(match[3])};
    const auto rate = read_rate(match[4]);
    if (!rate) return tl::unexpected(rate.error());
    const auto [place, is_new] =
        cables_.try_emplace(std::minmax(mine, peer), Cable{mine, peer, *rate, line_});
    if (is_new) return {};
    Cable& other = place->second;
    if (other.a == mine) return fail_here("port ", mine.number, " is stated twice");
    if (other.rate != *rate) {
      draft_.note(fmt::format(
          "{}:{}: the cable runs at {:g} Gb/s here and {:g} Gb/s in line {}: the lower is taken",
          path_, line_, rate->value * 8e-9, other.rate.value * 8e-9, other.line));
      other.rate = std::min(other.rate, *rate);
    }
    other.seen_twice = true;
    return {};
  }

  static std::uint32_t number(const std::string& text) {
    std::uint32_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  /// "… lid 4 4xHDR": lanes x speed, the last word.
  Result<BytesPerSecond> read_rate(const std::string& comment) const {
    static const std::regex kRate(R"re((?:^|\s)(\d+)x([A-Z]+[0-9]*)\s*$)re");
    std::smatch match;
    if (!std::regex_search(comment, match, kRate)) {
      return fail_here("no width and speed such as 4xHDR at the end of the line");
    }
    const auto lane = kLaneGigabits.find(match[2]);
    if (lane == kLaneGigabits.end())
      return fail_here("speed \"", match[2].str(), "\" is not known");
    return gigabits_per_second(number(match[1]) * lane->second);
  }

  /// Parts joined by cables are planes; adapters become NICs of the next rank.
  Result<void> place_devices() {
    skip_aggregation_nodes();
    const auto plane_of = planes();
    std::map<std::string, std::vector<Port>> ports;  // of an adapter
    for (const auto& [ends, cable] : cables_) {
      for (const Port& port : {cable.a, cable.b}) {
        const auto device = index_.find(port.guid);
        if (device == index_.end()) {
          line_ = cable.line;
          return fail_here("\"", port.guid, "\" is nowhere stated as a Switch or Ca");
        }
        if (!devices_[device->second].is_switch) ports[port.guid].push_back(port);
      }
    }
    std::uint32_t rank = 0;
    for (const Device& d : devices_) {
      if (d.is_switch)
        (void)add(d.guid, 0, {unique(d.name), VertexKind::other_switch, plane_of.at(d.guid), {}});
      else
        add_adapter(d, ports[d.guid], rank);
    }
    // A port of an adapter takes the plane of what it is plugged into, so planes differ by port.
    for (const auto& [ends, cable] : cables_) {
      const auto a = vertex(cable.a), b = vertex(cable.b);
      if (!a || !b) continue;  // an aggregation node
      draft_.link(*a, *b, cable.rate, latency(*b));
      draft_.link(*b, *a, cable.rate, latency(*a));
    }
    return {};
  }

  void add_adapter(const Device& d, const std::vector<Port>& ports, std::uint32_t& rank) {
    if (skipped_.contains(d.guid)) return;
    std::set<std::uint32_t> used;
    for (const Port& port : ports) {
      const std::uint32_t plane = port_plane_.at(port);
      if (!used.insert(plane).second) {
        draft_.note(
            fmt::format("{}:{}: \"{}\" has several ports in plane {}: each is a rank of its own",
                        path_, d.line, d.name, plane));
        used = {plane};
        ++rank;
      }
      const std::string name =
          ports.size() > 1 ? fmt::format("{}/{}", d.name, port.number) : d.name;
      (void)add(port.guid, port.number, {unique(name), VertexKind::nic, plane, Rank{rank}});
    }
    if (ports.empty())
      draft_.note(fmt::format("{}:{}: \"{}\" has no cable and is left out", path_, d.line, d.name));
    else
      ++rank;
  }

  /// SHARP's pseudo-adapters sit inside switches and carry no traffic of ranks.
  void skip_aggregation_nodes() {
    for (const Device& d : devices_) {
      if (d.is_switch || d.name.find("Aggregation Node") == std::string::npos) continue;
      skipped_.insert(d.guid);
      draft_.note(fmt::format("{}:{}: \"{}\" left out", path_, d.line, d.name));
    }
  }

  /// Numbers the parts that cables join, adapters not joining what they are plugged into.
  std::map<std::string, std::uint32_t> planes() {
    std::vector<std::size_t> parent(devices_.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    const auto root = [&](std::size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    for (const auto& [ends, cable] : cables_) {
      const auto a = index_.find(cable.a.guid), b = index_.find(cable.b.guid);
      if (a == index_.end() || b == index_.end()) continue;
      if (devices_[a->second].is_switch && devices_[b->second].is_switch) {
        parent[root(a->second)] = root(b->second);
      }
    }
    std::map<std::size_t, std::uint32_t> number_of;
    std::map<std::string, std::uint32_t> plane_of;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!devices_[i].is_switch) continue;
      const auto next = static_cast<std::uint32_t>(number_of.size());
      plane_of[devices_[i].guid] = number_of.try_emplace(root(i), next).first->second;
    }
    for (const auto& [ends, cable] : cables_) {
      for (const auto& [port, peer] : {std::pair(cable.a, cable.b), std::pair(cable.b, cable.a)}) {
        const auto plane = plane_of.find(peer.guid);
        port_plane_[port] = plane == plane_of.end() ? 0 : plane->second;
      }
    }
    return plane_of;
  }

  std::optional<VertexIndex> add(const std::string& guid, std::uint32_t port, Vertex v) {
    const auto index = draft_.add(std::move(v));
    if (index) vertex_[{guid, port}] = *index;
    return index;
  }

  std::optional<VertexIndex> vertex(const Port& port) const {
    auto found = vertex_.find(port);
    if (found == vertex_.end()) found = vertex_.find({port.guid, 0});  // a switch has one vertex
    return found == vertex_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The description, or with a number behind it if another device has the same.
  std::string unique(const std::string& name) const {
    std::string result = name;
    for (int i = 2; draft_.find(result); ++i) result = fmt::format("{} ({})", name, i);
    return result;
  }

  Nanos latency(VertexIndex into) const {
    const bool nic = draft_.vertices[into.value].kind == VertexKind::nic;
    return defaults_.cable_latency + (nic ? Nanos{0} : defaults_.hop_latency);
  }

  std::string path_;
  LinkDefaults defaults_;
  int line_ = 0;
  std::vector<Device> devices_;
  std::map<std::string, std::size_t> index_;  // guid -> devices_
  std::map<std::pair<Port, Port>, Cable> cables_;
  std::map<Port, std::uint32_t> port_plane_;
  std::map<Port, VertexIndex> vertex_;
  std::set<std::string> skipped_;
  GraphDraft draft_;
};

}  // namespace

Result<ImportedTopology> import_ibnetdiscover(const std::string& path,
                                              const LinkDefaults& defaults) {
  std::ifstream in(path);
  if (!in) return fail(ErrorCode::not_found, path, ": no such file");
  return Importer(path, defaults).run(in);
}

}  // namespace engram::model
