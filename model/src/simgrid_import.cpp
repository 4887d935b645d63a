#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "engram/model/topology_file.hpp"
#include "graph_draft.hpp"
#include "simgrid_routes.hpp"
#include "simgrid_units.hpp"

namespace engram::model {
namespace {

using simgrid::Element;
using simgrid::kBandwidths;
using simgrid::kTimes;
using simgrid::NamedLink;
using simgrid::numbers;
using simgrid::quantity;
using simgrid::RouteGraph;

class Importer {
 public:
  explicit Importer(const XmlFile& file) : file_(file) {}

  Result<ImportedTopology> run() {
    const std::string version = XmlFile::text(file_.root(), "version");
    if (!version.starts_with("4")) {
      return file_.fail(file_.root(), "version \"", version, "\"; version 4 is understood");
    }
    if (auto ok = zone(file_.root(), ""); !ok) return tl::unexpected(ok.error());
    if (auto ok = lay_long_routes(); !ok) return tl::unexpected(ok.error());
    return draft_.build(file_.path());
  }

 private:
  /// Everything inside a zone: first what has a name, then what refers to names.
  Result<void> zone(const Element& parent, const std::string& id) {
    for (const Element* e = parent.FirstChildElement(); e; e = e->NextSiblingElement()) {
      if (auto ok = declare(*e); !ok) return ok;
    }
    for (const Element* e = parent.FirstChildElement(); e; e = e->NextSiblingElement()) {
      if (auto ok = connect(*e, id); !ok) return ok;
    }
    return {};
  }

  Result<void> declare(const Element& e) {
    const std::string_view tag = e.Name();
    if (tag == "host") return add(e, VertexKind::nic);
    if (tag == "router") return add(e, VertexKind::other_switch);
    if (tag == "link") return add_link(e);
    if (tag == "cluster") return cluster(e);
    if (tag == "zone" || tag == "AS") return inner_zone(e);
    if (tag == "route" || tag == "zoneRoute" || tag == "ASroute" || tag == "host_link") return {};
    if (tag == "config" || tag == "prop") return {};
    if (tag == "backbone") {
      draft_.note(file_.place(e) + ": backbone ignored: the switch in its place is non-blocking");
      return {};
    }
    if (tag == "trace" || tag == "trace_connect" || tag == "storage" || tag == "storage_type" ||
        tag == "mount" || tag == "disk" || tag == "actor" || tag == "process") {
      draft_.note(file_.place(e) + ": <" + std::string(tag) + "> ignored");
      return {};
    }
    return unsupported(e, fmt::format("<{}> is not understood", tag));
  }

  Result<void> connect(const Element& e, const std::string& zone_id) {
    const std::string_view tag = e.Name();
    if (tag == "route") return route(e, "src", "dst");
    if (tag == "zoneRoute" || tag == "ASroute") return route(e, "gw_src", "gw_dst");
    if (tag == "host_link") return host_link(e, zone_id);
    return {};
  }

  Result<void> inner_zone(const Element& e) {
    const std::string routing = XmlFile::text(e, "routing");
    static const std::set<std::string> kKnown{"Full",          "Floyd", "Dijkstra",
                                              "DijkstraCache", "None",  "Cluster"};
    if (!kKnown.contains(routing)) {
      return unsupported(e, "routing \"" + routing +
                                "\" is not understood, only Full, Floyd, Dijkstra, None, Cluster");
    }
    const std::string id = XmlFile::text(e, "id");
    if (routing == "Cluster") {
      // Its router, if it states one, is the switch that all host links meet at.
      const Element* router = e.FirstChildElement("router");
      centre_[id] = router ? XmlFile::text(*router, "id") : id + "_router";
      if (!router) (void)draft_.add({centre_[id], VertexKind::other_switch, 0, {}});
    }
    return zone(e, id);
  }

  Result<void> add(const Element& e, VertexKind kind) {
    const auto id = file_.needed(e, "id");
    if (!id) return tl::unexpected(id.error());
    return add_vertex(e, *id, kind).map([](VertexIndex) {});
  }

  Result<VertexIndex> add_vertex(const Element& e, const std::string& name, VertexKind kind) {
    const auto rank = kind == VertexKind::nic ? std::optional(Rank{num_hosts_++}) : std::nullopt;
    const auto index = draft_.add({name, kind, 0, rank});
    if (!index) return file_.fail(e, "the name \"", name, "\" is taken");
    return *index;
  }

  Result<NamedLink> read_link(const Element& e, const char* bandwidth, const char* latency) {
    const auto rate = quantity(file_, e, bandwidth, kBandwidths);
    if (!rate) return tl::unexpected(rate.error());
    double ns = 0;
    if (e.Attribute(latency)) {
      const auto time = quantity(file_, e, latency, kTimes);
      if (!time) return tl::unexpected(time.error());
      ns = *time;
    }
    return NamedLink{{*rate}, Nanos{std::llround(ns)}, {}, false};
  }

  Result<void> add_link(const Element& e) {
    const auto id = file_.needed(e, "id");
    if (!id) return tl::unexpected(id.error());
    auto link = read_link(e, "bandwidth", "latency");
    if (!link) return tl::unexpected(link.error());
    const std::string policy = XmlFile::text(e, "sharing_policy", "SHARED");
    note_sharing(policy);
    link->fatpipe = policy == "FATPIPE";
    if (!links_.emplace(*id, *link).second) return file_.fail(e, "the name \"", *id, "\" is taken");
    return {};
  }

  void note_sharing(const std::string& policy) {
    if (policy == "SPLITDUPLEX" || policy == "FULLDUPLEX") return;
    draft_.note(
        fmt::format("{}: links of policy {} are taken as cables with the full rate each way",
                    file_.path(), policy));
  }

  Result<void> route(const Element& e, const char* from_name, const char* to_name) {
    const auto from = end(e, from_name), to = end(e, to_name);
    if (!from) return tl::unexpected(from.error());
    if (!to) return tl::unexpected(to.error());
    if (*from == *to) return {};  // a host to itself never leaves it
    const Element* part = e.FirstChildElement("link_ctn");
    if (!part) return file_.fail(e, "names no link");
    if (part->NextSiblingElement("link_ctn")) {
      long_routes_.push_back(&e);
      return {};
    }
    const auto link = use(*part, *from, *to);
    if (!link) return tl::unexpected(link.error());
    const bool both = XmlFile::text(e, "symmetrical", "YES") != "NO";
    draft_.link(*from, *to, (*link)->rate, (*link)->latency);
    if (both) draft_.link(*to, *from, (*link)->rate, (*link)->latency);
    return {};
  }

  Result<VertexIndex> end(const Element& e, const char* attribute) {
    const auto name = file_.needed(e, attribute);
    if (!name) return tl::unexpected(name.error());
    const auto index = draft_.find(*name);
    if (!index) return file_.fail(e, attribute, "=\"", *name, "\" is no host or router");
    return *index;
  }

  /// A link by its name; "x_UP" and "x_DOWN" are the directions of a split-duplex link "x".
  std::map<std::string, NamedLink>::iterator locate(const std::string& name) {
    auto found = links_.find(name);
    for (const std::string_view way : {"_UP", "_DOWN"}) {
      if (found == links_.end() && name.ends_with(way)) {
        found = links_.find(name.substr(0, name.size() - way.size()));
      }
    }
    return found;
  }
  NamedLink* find_link(const std::string& name) {
    const auto found = locate(name);
    return found == links_.end() ? nullptr : &found->second;
  }

  /// The link that a <link_ctn> names, laid between two ends; it cannot lie elsewhere too.
  Result<NamedLink*> use(const Element& part, VertexIndex from, VertexIndex to) {
    const auto id = file_.needed(part, "id");
    if (!id) return tl::unexpected(id.error());
    NamedLink* const found = find_link(*id);
    if (!found) return file_.fail(part, "no link is named \"", *id, "\"");
    NamedLink& link = *found;
    const std::pair ends(from, to), back(to, from);
    if (link.ends && *link.ends != ends && *link.ends != back && !link.fatpipe) {
      const auto name = [&](VertexIndex v) { return draft_.vertices[v.value].name; };
      return unsupported(
          part,
          fmt::format("link \"{}\" joins {} and {}, and elsewhere {} and {}: a medium "
                      "that several pairs share is no cable",
                      *id, name(link.ends->first), name(link.ends->second), name(from), name(to)));
    }
    link.ends = ends;
    return &link;
  }

  /// Lays the links of routes that name several, at points that follow from all routes together.
  Result<void> lay_long_routes() {
    if (long_routes_.empty()) return {};
    RouteGraph graph(static_cast<std::uint32_t>(draft_.vertices.size()));
    for (const auto& [name, link] : links_) {
      if (link.ends) graph.lay(name, link.ends->first, link.ends->second);
    }
    for (const Element* e : long_routes_) {
      RouteGraph::Route route{*end(*e, e->Attribute("gw_src") ? "gw_src" : "src"),
                              *end(*e, e->Attribute("gw_dst") ? "gw_dst" : "dst"),
                              {}};
      for (const Element* part = e->FirstChildElement("link_ctn"); part;
           part = part->NextSiblingElement("link_ctn")) {
        const std::string id = XmlFile::text(*part, "id");
        const auto found = locate(id);
        if (found == links_.end()) return file_.fail(*part, "no link is named \"", id, "\"");
        route.links.push_back(found->first);
      }
      graph.add(std::move(route));
    }
    if (const auto impossible = graph.solve(); !impossible.empty()) {
      return unsupported(*long_routes_[impossible.front()],
                         "the links of this route do not follow one another as other routes lay "
                         "them: two of the hosts and routers would be one");
    }
    draft_.note(fmt::format("{}: the route is not kept: packets take any shortest path{}",
                            file_.place(*long_routes_.front()),
                            long_routes_.size() == 1
                                ? ""
                                : fmt::format(" (so of {} others)", long_routes_.size() - 1)));
    lay(graph, links_, file_.path(), draft_);
    return {};
  }

  Result<void> host_link(const Element& e, const std::string& zone_id) {
    const auto host = end(e, "id");
    if (!host) return tl::unexpected(host.error());
    const auto router = centre_.contains(zone_id) ? draft_.find(centre_[zone_id]) : std::nullopt;
    if (!router) return file_.fail(e, "stands outside a zone with routing Cluster");
    for (const char* way : {"up", "down"}) {
      NamedLink* const found = find_link(XmlFile::text(e, way));
      if (!found) return file_.fail(e, way, "=\"", XmlFile::text(e, way), "\" is no link");
      const bool up = way[0] == 'u';
      draft_.link(up ? *host : *router, up ? *router : *host, found->rate, found->latency);
    }
    return {};
  }

  Result<void> cluster(const Element& e) {
    const auto radical = file_.needed(e, "radical");
    if (!radical) return tl::unexpected(radical.error());
    const auto link = read_link(e, "bw", "lat");
    if (!link) return tl::unexpected(link.error());
    note_sharing(XmlFile::text(e, "sharing_policy", "SPLITDUPLEX"));
    if (e.Attribute("bb_bw")) {
      draft_.note(file_.place(e) + ": backbone ignored: the switch in its place is non-blocking");
    }
    const auto hosts = cluster_hosts(e, *radical);
    if (!hosts) return tl::unexpected(hosts.error());
    const std::string topology = XmlFile::text(e, "topology", "FLAT");
    if (topology == "FLAT") return flat_cluster(e, *hosts, *link);
    if (topology == "FAT_TREE") return fat_tree(e, *hosts, *link);
    return unsupported(e,
                       "topology \"" + topology + "\" is not understood, only FLAT and FAT_TREE");
  }

  /// Hosts of "0-3,7", in order.
  Result<std::vector<VertexIndex>> cluster_hosts(const Element& e, const std::string& radical) {
    std::vector<VertexIndex> hosts;
    std::string_view rest = radical;
    while (!rest.empty()) {
      std::string part(rest.substr(0, rest.find(',')));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      std::ranges::replace(part, '-', ',');
      const auto range = numbers(file_, e, part);
      if (!range) return tl::unexpected(range.error());
      if (range->empty() || range->size() > 2 || range->back() < range->front() ||
          range->back() - range->front() > (1u << 20)) {
        return file_.fail(e, "radical=\"", radical, "\" is not a list of ranges");
      }
      for (std::uint32_t i = range->front(); i <= range->back(); ++i) {
        const std::string name =
            XmlFile::text(e, "prefix") + std::to_string(i) + XmlFile::text(e, "suffix");
        const auto host = add_vertex(e, name, VertexKind::nic);
        if (!host) return tl::unexpected(host.error());
        hosts.push_back(*host);
      }
    }
    return hosts;
  }

  Result<void> flat_cluster(const Element& e, const std::vector<VertexIndex>& hosts,
                            const NamedLink& link) {
    const std::string router = XmlFile::text(e, "prefix") + XmlFile::text(e, "id") + "_router" +
                               XmlFile::text(e, "suffix");
    const auto centre =
        add_vertex(e, XmlFile::text(e, "router_id", router.c_str()), VertexKind::other_switch);
    if (!centre) return tl::unexpected(centre.error());
    for (const VertexIndex host : hosts) cable(host, *centre, link);
    return {};
  }

  void cable(VertexIndex a, VertexIndex b, const NamedLink& link) {
    draft_.cable(a, b, link.rate, link.latency);
  }

  /// "levels;down,…;up,…;cables,…". A vertex of level i has a digit for every level j: below
  /// `up[j]` if j < i, else below `down[j]`; a vertex and one a level up are joined if all digits
  /// but that level's agree (the parallel-port generalised fat tree).
  Result<void> fat_tree(const Element& e, const std::vector<VertexIndex>& hosts,
                        const NamedLink& link) {
    const std::string text = XmlFile::text(e, "topo_parameters");
    std::vector<std::vector<std::uint32_t>> lists;
    for (std::string_view rest = text; !rest.empty();) {
      const auto part = rest.substr(0, rest.find(';'));
      const auto list = numbers(file_, e, part);
      if (!list) return tl::unexpected(list.error());
      lists.push_back(*list);
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    }
    const bool shaped = lists.size() == 4 && lists[0].size() == 1 && lists[0][0] >= 1 &&
                        lists[0][0] <= 8 && std::ranges::all_of(lists, [&](const auto& l) {
                          return (&l == &lists[0] || l.size() == lists[0][0]) &&
                                 std::ranges::find(l, 0u) == l.end();
                        });
    if (!shaped)
      return file_.fail(e, "topo_parameters=\"", text, "\" is not levels;down;up;cables");
    const auto &down = lists[1], &up = lists[2], &cables = lists[3];
    std::uint64_t places = 1;
    for (const std::uint32_t d : down) places *= d;
    if (places != hosts.size()) {
      return file_.fail(e, "the fat tree has ", places, " places for ", hosts.size(), " hosts");
    }
    std::vector<VertexIndex> below = hosts;
    std::vector<std::uint32_t> base = down;  // digits of the level below
    for (std::size_t level = 0; level < down.size(); ++level) {
      const auto above = next_level(e, level, base, up[level], down.size());
      if (!above) return tl::unexpected(above.error());
      // Stride of this level's digit, in numbers of both levels: lower digits vary fastest.
      std::uint32_t stride = 1;
      for (std::size_t j = 0; j < level; ++j) stride *= base[j];
      for (std::uint32_t child = 0; child < below.size(); ++child) {
        const std::uint32_t low = child % stride, high = child / stride / base[level];
        for (std::uint32_t digit = 0; digit < up[level]; ++digit) {
          const VertexIndex parent = (*above)[low + stride * (digit + up[level] * high)];
          for (std::uint32_t c = 0; c < cables[level]; ++c) cable(below[child], parent, link);
        }
      }
      base[level] = up[level];
      below = *above;
    }
    return {};
  }

  Result<std::vector<VertexIndex>> next_level(const Element& e, std::size_t level,
                                              std::vector<std::uint32_t> base, std::uint32_t up,
                                              std::size_t num_levels) {
    base[level] = up;
    std::uint64_t count = 1;
    for (const std::uint32_t b : base) count *= b;
    if (count > (1u << 20))
      return file_.fail(e, "level ", level + 1, " would have ", count, " switches");
    const VertexKind kind = level == 0                ? VertexKind::leaf
                            : level + 1 == num_levels ? VertexKind::spine
                                                      : VertexKind::other_switch;
    std::vector<VertexIndex> switches;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto v =
          add_vertex(e, fmt::format("{}.l{}s{}", XmlFile::text(e, "id"), level + 1, i), kind);
      if (!v) return tl::unexpected(v.error());
      switches.push_back(*v);
    }
    return switches;
  }

  tl::unexpected<Error> unsupported(const Element& e, const std::string& why) const {
    return engram::fail(ErrorCode::unsupported, file_.place(e), ": ", why);
  }

  const XmlFile& file_;
  GraphDraft draft_;
  std::map<std::string, NamedLink> links_;
  std::map<std::string, std::string> centre_;  // of a zone with routing Cluster
  std::vector<const Element*> long_routes_;
  std::uint32_t num_hosts_ = 0;
};

}  // namespace

Result<ImportedTopology> import_simgrid(const std::string& path) {
  const auto file = XmlFile::open(path, "platform");
  if (!file) return tl::unexpected(file.error());
  return Importer(*file).run();
}

}  // namespace engram::model
