// Routes of several links name the links and not the points between them. Where the points lie
// follows from the routes together: links that follow one another meet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engram/model/topology.hpp"
#include "graph_draft.hpp"

namespace engram::model::simgrid {

struct NamedLink {
  BytesPerSecond rate{};
  Nanos latency{};
  std::optional<std::pair<VertexIndex, VertexIndex>> ends;  // once a route has used it
  bool fatpipe = false;  // users do not slow each other: it may be laid several times
};

class RouteGraph {
 public:
  /// Points 0 to `num_named` - 1 are the vertices that the file names; they stay apart.
  explicit RouteGraph(std::uint32_t num_named);

  struct Route {
    VertexIndex from, to;
    std::vector<std::string> links;
  };
  /// A cable whose ends the file names.
  void lay(const std::string& link, VertexIndex from, VertexIndex to);
  void add(Route route) { pending_.push_back(std::move(route)); }

  /// Finds the points of all links, with as few of them as the routes allow: first of routes that
  /// leave no choice. Answers the routes (in the order of add()) for which two named points would
  /// have to be one.
  [[nodiscard]] std::vector<std::size_t> solve();

  struct Cable {
    std::string link;
    std::uint32_t ends[2];  ///< points; below num_named: a vertex
  };
  /// After solve(): links that lay() did not know, by name. Both ends alike: routes go through it
  /// and past it, so it is a medium inside what joins there.
  [[nodiscard]] std::vector<Cable> cables() const;
  /// Vertices that a route passes between two links.
  [[nodiscard]] const std::set<std::uint32_t>& passed() const { return passed_; }

 private:
  struct Laid {
    std::uint32_t ends[2] = {0, 0};
    bool named = false, used = false;  // by lay(); by a route that is settled
  };
  struct Choice {
    std::uint64_t cost = 0;
    std::vector<std::uint8_t> turned;  // [link]: taken from its second end to its first
    bool free = false;                 // another choice costs as little
  };
  [[nodiscard]] std::uint32_t find(std::uint32_t point) const;
  [[nodiscard]] std::uint64_t cost_of_joining(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] Choice choose(const Route& route) const;
  void settle(const Route& route, const Choice& choice);
  void join(std::uint32_t a, std::uint32_t b);

  std::uint32_t num_named_;
  std::vector<std::uint32_t> parent_;  // [point]
  std::map<std::string, Laid> links_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined_;  // ends of settled links, low first
  std::vector<Route> pending_;
  std::set<std::uint32_t> passed_;
};

/// Adds what `solved` found to `draft`, whose vertices are its named points: a switch at each other
/// point, a cable for each link (`links`, by name), a switch beside each host that routes pass,
/// since NICs do not forward; and notes of all this, which name `path`.
void lay(const RouteGraph& solved, const std::map<std::string, NamedLink>& links,
         const std::string& path, GraphDraft& draft);

}  // namespace engram::model::simgrid
