#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "engram/tools/html_report.hpp"
#include "html_page.hpp"
#include "svg.hpp"

namespace engram::tools {
namespace {

constexpr double kWidth = 1000, kHeight = 330;
constexpr double kLeft = 70, kRight = kWidth - 20, kTop = 12, kBottom = kHeight - 44;

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// The axis of numbers with the most values, or the first.
std::size_t horizontal_axis(const Scenario& scenario) {
  std::size_t best = 0, most = 0;
  for (std::size_t i = 0; i < scenario.sweep.size(); ++i) {
    const auto& values = scenario.sweep[i].values;
    const bool numeric = std::all_of(values.begin(), values.end(),
                                     [](const auto& v) { return number(v).has_value(); });
    if (numeric && values.size() > most) {
      best = i;
      most = values.size();
    }
  }
  return best;
}

struct Mark {
  double x, y, floor;
  const SweepPoint* point;
};
using Series = std::map<std::string, std::vector<Mark>>;

/// Points by what the other axes are set to; `positions` of the horizontal values, 0..1.
Series series_of(const Scenario& scenario, const std::vector<SweepPoint>& points, std::size_t axis,
                 const std::map<std::string, double>& positions, double SweepPoint::*figure) {
  Series series;
  for (const auto& point : points) {
    if (point.status != "ok") continue;
    std::string name;
    for (std::size_t i = 0; i < scenario.sweep.size(); ++i) {
      if (i == axis) continue;
      name += fmt::format("{}{} = {}", name.empty() ? "" : ", ", scenario.sweep[i].key,
                          point.values[i]);
    }
    const bool time = figure == &SweepPoint::median_us;
    series[name].push_back(
        {positions.at(point.values[axis]), point.*figure, time ? point.bound_floor_us : 0, &point});
  }
  for (auto& [name, marks] : series) {
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.x < b.x; });
  }
  return series;
}

/// Where each value stands: numbers to scale (by powers of two where they span much), else evenly.
std::map<std::string, double> place_values(const std::vector<std::string>& values) {
  std::map<std::string, double> places;
  std::vector<double> numbers;
  for (const auto& value : values) {
    if (const auto n = number(value)) numbers.push_back(*n);
  }
  const bool numeric = numbers.size() == values.size();
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const bool spread = numeric && *low < *high;
  const bool logarithmic = spread && *low > 0 && *high / *low >= 4;
  const auto scaled = [&](double v) { return logarithmic ? std::log2(v) : v; };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (spread) {
      places[values[i]] = (scaled(numbers[i]) - scaled(*low)) / (scaled(*high) - scaled(*low));
    } else {
      places[values[i]] = values.size() > 1 ? double(i) / double(values.size() - 1) : 0.5;
    }
  }
  return places;
}

std::string plot(const Scenario& scenario, const std::vector<SweepPoint>& points, std::size_t axis,
                 double SweepPoint::*figure) {
  const auto places = place_values(scenario.sweep[axis].values);
  const auto series = series_of(scenario, points, axis, places, figure);
  double most = 0;
  for (const auto& [name, marks] : series) {
    for (const auto& mark : marks) most = std::max({most, mark.y, mark.floor});
  }
  if (!(most > 0)) return "<p class=\"note\">nothing to plot</p>\n";
  const double step = round_step(most, 6);
  const double top = std::ceil(most / step) * step;
  const auto x_of = [](double share) { return kLeft + 20 + share * (kRight - kLeft - 40); };
  const auto y_of = [top](double y) { return kBottom - y / top * (kBottom - kTop); };
  Svg svg(kWidth, kHeight);
  for (int i = 0; i * step <= top * 1.0001; ++i) {
    svg.line(kLeft, y_of(i * step), kRight, y_of(i * step), "grid");
    svg.text(kLeft - 8, y_of(i * step) + 4, fmt::format("{:g}", i * step), "end", "soft");
  }
  for (const auto& [value, share] : places) {
    svg.text(x_of(share), kBottom + 18, value, "middle", "soft");
  }
  svg.text((kLeft + kRight) / 2, kBottom + 38, scenario.sweep[axis].key, "middle");
  std::vector<std::pair<std::string, std::string>> keys;
  for (const auto& [name, marks] : series) {
    const std::string colour(palette(keys.size()));
    std::string line, floor;
    for (const auto& mark : marks) {
      line += fmt::format("{:.2f},{:.2f} ", x_of(mark.x), y_of(mark.y));
      if (mark.floor > 0) floor += fmt::format("{:.2f},{:.2f} ", x_of(mark.x), y_of(mark.floor));
    }
    if (!floor.empty()) svg.polyline(floor, colour, true);
    svg.polyline(line, colour);
    for (const auto& mark : marks) {
      svg.circle(x_of(mark.x), y_of(mark.y), 4, colour,
                 fmt::format("{:.3f}, bound {}", mark.y, mark.point->bound));
    }
    if (!name.empty()) keys.emplace_back(name, colour);
  }
  return svg.take() + legend(keys);
}

void add_table(HtmlPage& page, const Scenario& scenario, const std::vector<SweepPoint>& points) {
  page.raw("<section><h2>All points</h2><div class=\"scroll\"><table><tr>");
  for (const auto& axis : scenario.sweep) {
    page.raw(fmt::format("<th>{}</th>", escape_html(axis.key)));
  }
  page.raw("<th class=\"n\">median us</th><th class=\"n\">floor us</th><th class=\"n\">M rows/s</th>"
           "<th>&nbsp;bound</th><th>status</th></tr>\n");
  for (const auto& point : points) {
    page.raw("<tr>");
    for (const auto& value : point.values) {
      page.raw(fmt::format("<td>{}</td>", escape_html(value)));
    }
    page.raw(fmt::format("<td class=\"n\">{:.3f}</td><td class=\"n\">{:.3f}</td><td class=\"n\">"
                         "{:.3f}</td><td>&nbsp;{}</td><td class=\"{}\">{}</td></tr>\n",
                         point.median_us, point.bound_floor_us, point.mpps,
                         escape_html(point.bound), point.status == "ok" ? "good" : "bad",
                         escape_html(point.status)));
  }
  page.raw("</table></div></section>\n");
}

}  // namespace

std::string html_sweep_report(const Scenario& scenario, const std::vector<SweepPoint>& points,
                              const std::vector<std::string>& warnings) {
  HtmlPage page(fmt::format("engram sweep: {}", scenario.path));
  page.raw(fmt::format("<h1>Sweep of {}</h1>\n<p class=\"sub\">{} points, {} backend, profile {}"
                       "</p>\n",
                       name_of(scenario.run.operation), points.size(),
                       escape_html(scenario.run.backend), escape_html(scenario.cluster.profile)));
  if (!warnings.empty()) page.list("warnings", warnings);
  if (!scenario.sweep.empty()) {
    const auto axis = horizontal_axis(scenario);
    page.raw("<section>");
    page.heading("Time", "median in us; dashed: the floor of the roof that bounds");
    page.raw(plot(scenario, points, axis, &SweepPoint::median_us));
    page.raw("</section>\n<section>");
    page.heading("Rate", "M rows/s, each rank");
    page.raw(plot(scenario, points, axis, &SweepPoint::mpps));
    page.raw("</section>\n");
  }
  add_table(page, scenario, points);
  page.scenario(scenario);
  return page.take();
}

}  // namespace engram::tools
