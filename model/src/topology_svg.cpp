#include <algorithm>
#include <array>
#include <map>

#include "engram/model/markup.hpp"
#include "engram/model/quantity.hpp"
#include "engram/model/topology_text.hpp"

namespace engram::model {
namespace {

constexpr double kRowHeight = 110, kTop = 64, kLeft = 130, kNicGap = 26, kSwitchGap = 96;
constexpr const char* kPlain = "#9aa5b1";  // of a cable whose load is not known
constexpr const char* kBroken = "#d6006c";
constexpr double kSwitchWidth = 84, kSwitchHeight = 24, kNicWidth = 20;

/// Load from grey through amber to red; the same steps in the legend.
struct LoadStep {
  double from;
  const char* colour;
  const char* label;
};
constexpr std::array<LoadStep, 6> kLoadSteps{{{0, "#c3c9d1", "idle"},
                                              {0.001, "#7fb3d5", "below 25 %"},
                                              {0.25, "#3f8f5f", "25-50 %"},
                                              {0.5, "#e0a63a", "50-75 %"},
                                              {0.75, "#dd6b20", "75-90 %"},
                                              {0.9, "#b8232f", "90 % and more"}}};

const LoadStep& step_of(double load) {
  const LoadStep* best = &kLoadSteps[0];
  for (const LoadStep& step : kLoadSteps) {
    if (load >= step.from) best = &step;
  }
  return *best;
}

struct Point {
  double x = 0, y = 0;
};

/// Both directions and all parallel links between two neighbours.
struct Cable {
  std::uint32_t low = 0, high = 0;  // vertices, low < high
  std::size_t links_up = 0;         // low -> high
  BytesPerSecond rate{};
  double busy = 0;
  std::string broken;  // its links that were down
};

class Picture {
 public:
  Picture(const Topology& t, std::span<const double> busy, const PictureOptions& options)
      : t_(t),
        busy_(busy),
        options_(options),
        at_(t.vertices().size()),
        shown_(t.vertices().size(), true) {
    double y = kTop + (t.num_planes() > 1 ? 22 : 0);  // room for the planes' names
    for (std::uint32_t plane = 0; plane < t.num_planes(); ++plane) y = place_plane(plane, y);
    height_ = y - 36 + (busy.empty() ? 0 : 30);
  }

  [[nodiscard]] std::string text() const {
    const double width = std::max(width_ + 60, busy_.empty() ? 480.0 : 860.0);
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height_);
    svg += fmt::format("<text x=\"20\" y=\"28\" font-size=\"17\" fill=\"#1f2933\">{}</text>\n",
                       escape_html(options_.title.empty() ? summary() : options_.title));
    svg += cables() + vertices() + labels_;
    if (!busy_.empty()) svg += legend();
    return svg + "</svg>\n";
  }

 private:
  /// Rows of a plane from the top: spines, other switches, leaves, NICs.
  double place_plane(std::uint32_t plane, double y) {
    std::map<VertexKind, std::vector<std::uint32_t>> rows;
    for (std::uint32_t v = 0; v < t_.vertices().size(); ++v) {
      if (t_.vertices()[v].plane == plane) rows[t_.vertices()[v].kind].push_back(v);
    }
    order_nics(rows[VertexKind::nic]);
    const bool fold = rows[VertexKind::nic].size() > options_.max_nics;
    const double span = place_lowest(rows, fold);
    width_ = std::max(width_, kLeft + span);
    if (t_.num_planes() > 1) label(20, y - 26, fmt::format("plane {}", plane), "#1f2933", 14);
    for (const VertexKind kind :
         {VertexKind::spine, VertexKind::other_switch, VertexKind::leaf, VertexKind::nic}) {
      const auto& row = rows[kind];
      if (row.empty()) continue;
      if (kind == VertexKind::spine || kind == VertexKind::other_switch) spread(row, span);
      if (kind == VertexKind::leaf) centre_over_nics(row, span);
      for (const std::uint32_t v : row) at_[v].y = y;
      static const std::map<VertexKind, const char*> kNames{{VertexKind::spine, "spines"},
                                                            {VertexKind::other_switch, "switches"},
                                                            {VertexKind::leaf, "leaves"},
                                                            {VertexKind::nic, "NICs of ranks"}};
      label(20, y + 4, kNames.at(kind), "#7b8794", 12);
      y += kRowHeight;
    }
    return y;
  }

  /// NICs by the switch they hang on, so that cables do not cross; then by rank.
  void order_nics(std::vector<std::uint32_t>& nics) const {
    std::ranges::stable_sort(nics, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(home(a), t_.vertices()[a].rank) < std::pair(home(b), t_.vertices()[b].rank);
    });
  }

  [[nodiscard]] std::uint32_t home(std::uint32_t nic) const {
    const auto out = t_.links_out({nic});
    return out.empty() ? 0 : t_.links()[out[0].value].to.value;
  }

  /// Gives NICs (or, folded, one place a switch) their x; returns the width of the row.
  double place_lowest(std::map<VertexKind, std::vector<std::uint32_t>>& rows, bool fold) {
    // Each switch's group is centred in a slot as wide as the group, or as the switch above it.
    const auto& nics = rows[VertexKind::nic];
    double x = 0;
    for (std::size_t first = 0; first < nics.size();) {
      std::size_t last = first;
      while (last < nics.size() && home(nics[last]) == home(nics[first])) ++last;
      const double group = fold ? 0 : static_cast<double>(last - first) * kNicGap;
      const double slot = std::max(group + 12, kSwitchGap);
      for (std::size_t i = first; i < last; ++i) {
        const double place =
            fold ? 0 : (static_cast<double>(i - first) + 0.5) * kNicGap - group / 2;
        at_[nics[i]].x = kLeft + x + slot / 2 + place;
        shown_[nics[i]] = !fold;
      }
      if (fold) folded_[home(nics[first])].assign(nics.begin() + first, nics.begin() + last);
      x += slot;
      first = last;
    }
    const auto most = std::max({rows[VertexKind::spine].size(), rows[VertexKind::leaf].size(),
                                rows[VertexKind::other_switch].size()});
    return std::max(x, static_cast<double>(most) * kSwitchGap);
  }

  void spread(const std::vector<std::uint32_t>& row, double span) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      at_[row[i]].x =
          kLeft + span * (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
    }
  }

  /// A leaf stands over the middle of its NICs, if neighbours keep their distance; else in order.
  void centre_over_nics(const std::vector<std::uint32_t>& row, double span) {
    std::map<std::uint32_t, std::pair<double, int>> sum;
    for (std::uint32_t v = 0; v < t_.vertices().size(); ++v) {
      if (t_.vertices()[v].kind != VertexKind::nic) continue;
      auto& [x, n] = sum[home(v)];
      x += at_[v].x;
      ++n;
    }
    spread(row, span);
    std::vector<Point> wanted;
    for (const std::uint32_t leaf : row) {
      const auto found = sum.find(leaf);
      wanted.push_back(found == sum.end() ? at_[leaf]
                                          : Point{found->second.first / found->second.second, 0});
    }
    for (std::size_t i = 1; i < row.size(); ++i) {
      if (wanted[i].x - wanted[i - 1].x < kSwitchWidth + 6) return;
    }
    for (std::size_t i = 0; i < row.size(); ++i) at_[row[i]].x = wanted[i].x;
  }

  [[nodiscard]] std::string summary() const {
    return fmt::format("{} ranks, {} plane{}, {} links", t_.num_ranks(), t_.num_planes(),
                       t_.num_planes() == 1 ? "" : "s", t_.links().size());
  }

  [[nodiscard]] std::string cables() const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Cable> all;
    for (std::uint32_t l = 0; l < t_.links().size(); ++l) {
      const Link& link = t_.links()[l];
      const auto ends = std::minmax(link.from.value, link.to.value);
      Cable& cable = all[ends];
      cable.low = ends.first;
      cable.high = ends.second;
      cable.rate = link.rate;
      cable.links_up += link.from.value == ends.first;
      if (!busy_.empty()) cable.busy = std::max(cable.busy, busy_[l]);
      if (std::ranges::find(options_.broken, link.name) != options_.broken.end()) {
        cable.broken += (cable.broken.empty() ? "" : ", ") + link.name;
      }
    }
    // Those that were down and the busiest are drawn last, on top.
    std::vector<Cable> order;
    for (const auto& [ends, cable] : all) order.push_back(cable);
    std::ranges::stable_sort(order, {},
                             [](const Cable& c) { return std::pair(!c.broken.empty(), c.busy); });
    // Many cables between few switches would cover each other: draw them thin.
    const double thin = order.size() > 150 && options_.max_nics < t_.num_ranks() ? 0.4 : 1.0;
    std::string svg;
    for (const Cable& c : order) {
      if (!shown_[c.low] || !shown_[c.high]) continue;
      const Point a = at_[c.low], b = at_[c.high];
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"{:.1f}\"{}><title>{} - {}: {} x {}{}{}</title></line>\n",
          a.x, a.y, b.x, b.y,
          !c.broken.empty() ? kBroken
          : busy_.empty()   ? kPlain
                            : step_of(c.busy).colour,
          thin * (1.2 + 0.6 * static_cast<double>(std::min<std::size_t>(c.links_up, 4))) +
              (c.busy >= kLoadSteps[4].from || !c.broken.empty() ? 1.0 : 0.0),
          c.broken.empty() ? "" : " stroke-dasharray=\"6 4\"",
          escape_html(t_.vertices()[c.low].name), escape_html(t_.vertices()[c.high].name),
          std::max<std::size_t>(c.links_up, 1), to_text(c.rate),
          busy_.empty() ? "" : fmt::format(", busy {:.1f} %", 100 * c.busy),
          c.broken.empty() ? "" : escape_html("; was down: " + c.broken));
    }
    return svg;
  }

  [[nodiscard]] std::string vertices() const {
    std::string svg;
    for (std::uint32_t v = 0; v < t_.vertices().size(); ++v) {
      const Vertex& vertex = t_.vertices()[v];
      if (!shown_[v]) continue;
      const bool nic = vertex.kind == VertexKind::nic;
      const double w = nic ? kNicWidth : kSwitchWidth, h = nic ? 20 : kSwitchHeight;
      const char* fill = nic ? "#e8f1fb" : vertex.kind == VertexKind::leaf ? "#eef6ec" : "#f6efe2";
      const std::string name =
          nic && vertex.rank ? std::to_string(vertex.rank->value) : vertex.name;
      svg += box(at_[v], w, h, fill, name, nic ? 10 : 12, vertex.name);
    }
    for (const auto& [leaf, nics] : folded_) {
      const Point at{at_[leaf].x, at_[leaf].y + kRowHeight};
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
          "stroke-width=\"4\"/>\n",
          at.x, at_[leaf].y + kSwitchHeight / 2, at.y,
          busy_.empty() ? kPlain : step_of(busiest_of(nics)).colour);
      svg += box(at, kSwitchWidth, 20, "#e8f1fb", fmt::format("{} NICs", nics.size()), 11, "");
    }
    return svg;
  }

  /// The load of the busiest link into or out of these NICs.
  [[nodiscard]] double busiest_of(const std::vector<std::uint32_t>& nics) const {
    double most = 0;
    for (std::uint32_t l = 0; l < t_.links().size() && !busy_.empty(); ++l) {
      const Link& link = t_.links()[l];
      if (std::ranges::any_of(nics,
                              [&](auto n) { return link.from.value == n || link.to.value == n; })) {
        most = std::max(most, busy_[l]);
      }
    }
    return most;
  }

  [[nodiscard]] static std::string box(Point at, double w, double h, const char* fill,
                                       const std::string& name, int size,
                                       const std::string& title) {
    const std::string shown = name.size() > 13 ? name.substr(0, 12) + "…" : name;
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" "
        "stroke=\"#52606d\"><title>{}</title></rect>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"{}\" "
        "fill=\"#1f2933\">{}</text>\n",
        at.x - w / 2, at.y - h / 2, w, h, fill, escape_html(title), at.x, at.y + size * 0.36, size,
        escape_html(shown));
  }

  void label(double x, double y, const std::string& text, const char* colour, int size) {
    labels_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x,
                    y, size, colour, escape_html(text));
  }

  [[nodiscard]] std::string legend() const {
    std::string svg = fmt::format(
        "<text x=\"20\" y=\"{:.1f}\" fill=\"#7b8794\">busy, the busier direction</text>\n",
        height_ - 16);
    double x = 190;
    for (const LoadStep& step : kLoadSteps) {
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"4\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          x, height_ - 20, x + 24, height_ - 20, step.colour, x + 30, height_ - 16, step.label);
      x += 110;
    }
    return svg;
  }

  const Topology& t_;
  std::span<const double> busy_;
  const PictureOptions& options_;
  std::vector<Point> at_;
  std::vector<bool> shown_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> folded_;  // switch -> NICs drawn as one
  double width_ = 0, height_ = 0;
  std::string labels_;
};

}  // namespace

std::string topology_svg(const Topology& topology, std::span<const double> busy,
                         const PictureOptions& options) {
  require(busy.empty() || busy.size() == topology.links().size(), "one load a link");
  return Picture(topology, busy, options).text();
}

}  // namespace engram::model
