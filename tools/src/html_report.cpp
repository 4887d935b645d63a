#include "engram/tools/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "figures.hpp"
#include "html_page.hpp"
#include "svg.hpp"

namespace engram::tools {
namespace {

constexpr double kWidth = 1000;  // of every picture, in SVG units
constexpr std::size_t kRanksShown = 32;
constexpr std::size_t kLinksShown = 16;

std::string tile(std::string_view value, std::string_view label, std::string_view css = "") {
  return fmt::format("<div class=\"tile\"><b class=\"{}\">{}</b><span>{}</span></div>\n", css,
                     escape_html(value), escape_html(label));
}

void add_head(HtmlPage& page, const RunResult& r) {
  page.raw(
      fmt::format("<h1>{} on {}</h1>\n<p class=\"sub\">{} backend, profile {}, fidelity "
                  "{}, seed {}, engram {}</p>\n",
                  escape_html(r.operation), counted(r.ranks, "rank"), escape_html(r.backend),
                  escape_html(r.profile), escape_html(r.fidelity), r.seed, escape_html(r.version)));
  const bool right = r.verified.value_or(false) && r.failure.empty();
  const std::string verdict = right                ? "right"
                              : !r.failure.empty() ? "failed"
                              : r.verified         ? "wrong bytes"
                                                   : "not checked";
  page.raw("<div class=\"tiles\">\n");
  if (r.failed_at) {
    page.raw(tile(show(*r.failed_at), r.simulated ? "failed, in simulated time" : "failed", "bad"));
  }
  if (r.repeats > 0) {
    page.raw(tile(show(r.time.median),
                  fmt::format("median; {} to {}", show(r.time.min), show(r.time.max))));
  }
  std::string bound = r.bound;
  std::replace(bound.begin(), bound.end(), '_', ' ');
  page.raw(tile(bound, "bounds the time"));
  if (r.repeats > 0) {
    page.raw(tile(fmt::format("{:.1f} M/s", r.message_rate.value / 1e6), "rows, each rank"));
    page.raw(tile(fmt::format("{:.1f} GB/s", r.logical_rate.value / 1e9),
                  fmt::format("of rows; {:.1f} on the wire", r.wire_rate.value / 1e9)));
    page.raw(
        tile(grouped(r.requests), fmt::format("requests, {} doorbells", grouped(r.doorbells))));
  }
  page.raw(tile(verdict, "every byte compared",
                right                              ? "good"
                : r.verified || !r.failure.empty() ? "bad"
                                                   : ""));
  page.raw("</div>\n");
  if (!r.failure.empty()) page.list("warnings", {r.failure});
}

/// A time axis under `height`, from 0 to `end`; returns nothing, draws grid lines upward.
void time_axis(Svg& svg, double left, double right, double height, Nanos end) {
  const double total = std::max(microseconds(end), 1e-3);
  const double step = round_step(total, 8);
  for (int i = 0; i * step <= total * 1.0001; ++i) {
    const double x = left + (right - left) * (i * step / total);
    svg.line(x, 0, x, height, "grid");
    svg.text(x, height + 16, fmt::format("{:g}{}", i * step, i == 0 ? " us" : ""), "middle",
             "soft");
  }
}

std::map<std::string, std::string> stage_colours(const RunResult& r) {
  std::map<std::string, std::string> colours;
  for (const auto& [name, time] : r.stages) {
    colours.emplace(name, std::string(palette(colours.size())));
  }
  for (const auto& span : r.timeline) {
    colours.emplace(span.stage, std::string(palette(colours.size())));
  }
  return colours;
}

/// The ranks that end last, in order of rank.
std::vector<Rank> ranks_to_show(const RunResult& r) {
  std::map<Rank, Nanos> ends;
  for (const auto& span : r.timeline) ends[span.rank] = std::max(ends[span.rank], span.end);
  std::vector<std::pair<Rank, Nanos>> order(ends.begin(), ends.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (order.size() > kRanksShown) order.resize(kRanksShown);
  std::vector<Rank> ranks;
  for (const auto& [rank, end] : order) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void add_timeline(HtmlPage& page, const RunResult& r) {
  if (r.timeline.empty()) return;
  const auto ranks = ranks_to_show(r);
  const auto colours = stage_colours(r);
  Nanos end{1};
  for (const auto& span : r.timeline) end = std::max(end, span.end);
  const double row = ranks.size() > 16 ? 16 : 22, left = 74, right = kWidth - 14;
  const double height = row * double(ranks.size()) + 4;
  Svg svg(kWidth, height + 24);
  time_axis(svg, left, right, height, end);
  const double scale = (right - left) / double(end.count());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double y = row * double(i) + 2;
    svg.text(left - 10, y + row / 2 + 4, fmt::format("rank {}", ranks[i].value), "end", "soft");
    for (const auto& span : r.timeline) {
      if (span.rank != ranks[i]) continue;
      seen.insert(span.stage);
      svg.rect(left + double(span.start.count()) * scale, y + 2,
               std::max(double((span.end - span.start).count()) * scale, 0.6), row - 4,
               colours.at(span.stage),
               fmt::format("rank {}: {} {}, from {} to {}", span.rank.value, span.stage,
                           show(span.end - span.start), show(span.start), show(span.end)));
    }
  }
  page.raw("<section>");
  std::set<Rank> all;
  for (const auto& span : r.timeline) all.insert(span.rank);
  page.heading("Timeline", ranks.size() < all.size()
                               ? fmt::format("the {} of {} ranks that end last; median repeat",
                                             ranks.size(), all.size())
                               : "a row a rank; median repeat");
  page.raw(svg.take());
  std::vector<std::pair<std::string, std::string>> keys;
  for (const auto& [name, time] : r.stages) {
    if (seen.erase(name)) keys.emplace_back(name, colours.at(name));
  }
  for (const auto& name : seen) keys.emplace_back(name, colours.at(name));
  page.raw(legend(keys));
  page.raw("</section>\n");
}

struct Bar {
  std::string label, figure, colour;
  double length = 0;  ///< same unit as the others
};

std::string bars(const std::vector<Bar>& list, double full, double label_width) {
  constexpr double kRow = 24, kFigure = 92;
  Svg svg(kWidth, kRow * double(list.size()) + 2);
  const double room = kWidth - label_width - kFigure;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& bar = list[i];
    const double y = kRow * double(i);
    const double length = full > 0 ? std::clamp(bar.length / full, 0.0, 1.0) * room : 0;
    svg.text(label_width - 10, y + 16, bar.label, "end");
    svg.rect(label_width, y + 4, std::max(length, 1.0), kRow - 8, bar.colour);
    svg.text(label_width + length + 8, y + 16, bar.figure, "start", "soft");
  }
  return svg.take();
}

void add_floors(HtmlPage& page, const RunResult& r) {
  if (r.floors.empty()) return;
  std::vector<Bar> list;
  double full = double(r.time.median.count());
  for (const auto& [name, time] : r.floors) {
    list.push_back(
        {name, show(time), name == r.bound ? "#efb118" : "#97bbf5", double(time.count())});
    full = std::max(full, double(time.count()));
  }
  if (r.repeats > 0) {
    list.push_back({"this run", show(r.time.median), "#3ca951", double(r.time.median.count())});
  }
  page.raw("<section>");
  page.heading("Floors against the result",
               fmt::format("what each roof alone would take; {} bounds", r.bound));
  page.raw(bars(list, full, 170));
  page.raw("</section>\n");
}

void add_stages(HtmlPage& page, const RunResult& r) {
  if (r.stages.empty()) return;
  const auto colours = stage_colours(r);
  std::vector<Bar> list;
  double full = double(r.time.median.count());
  for (const auto& [name, time] : r.stages) {
    list.push_back({name, show(time), colours.at(name), double(time.count())});
    full = std::max(full, double(time.count()));
  }
  page.raw("<section>");
  page.heading("Stages", "slowest rank, median repeat");
  page.raw(bars(list, full, 170));
  page.raw("</section>\n");
}

void add_paths(HtmlPage& page, const RunResult& r) {
  const auto paths = named_paths(r.paths);
  double total = 0;
  for (const auto& [name, use] : paths) total += double(use.requests);
  if (total == 0) return;
  Svg svg(kWidth, 34);
  std::vector<std::pair<std::string, std::string>> keys;
  double x = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto& [name, use] = paths[i];
    const double part = double(use.requests) / total;
    const auto text = fmt::format("{}: {} requests, {} ({:.1f} %)", name, grouped(use.requests),
                                  show(use.payload), part * 100);
    if (part > 0) svg.rect(x, 2, std::max(part * kWidth - 1, 0.5), 30, palette(i), text);
    x += part * kWidth;
    keys.emplace_back(text, std::string(palette(i)));
  }
  page.raw("<section>");
  page.heading("Which way the rows came", "share of the requests");
  page.raw(svg.take());
  page.raw(legend(keys));
  page.raw("</section>\n");
}

void add_network(HtmlPage& page, const RunResult& r) {
  if (!r.topology_svg.empty()) {
    page.raw("<section>");
    page.heading("Network", "load of each link");
    page.raw("<div class=\"scroll\">" + r.topology_svg + "</div></section>\n");
  }
  const auto busiest = busiest_links(r.links, kLinksShown);
  if (busiest.empty()) return;
  std::vector<Bar> list;
  for (const auto& link : busiest) {
    const auto colour = link.busy > 0.9 ? "#ff725c" : link.busy > 0.6 ? "#efb118" : "#6cc5b0";
    list.push_back({link.name, fmt::format("{:.1f} %, {}", link.busy * 100, show(link.carried)),
                    colour, link.busy});
  }
  page.raw("<section>");
  page.heading("Busiest links",
               fmt::format("{} of {}; share of the run's time", busiest.size(), r.links.size()));
  page.raw(bars(list, 1.15, 230));
  page.raw("</section>\n");
}

}  // namespace

std::string html_report(const RunResult& result, const Scenario& scenario) {
  HtmlPage page(fmt::format("engram {}: {}", result.operation,
                            result.repeats > 0 ? show(result.time.median) : "failed"));
  add_head(page, result);
  std::vector<std::string> notes = result.faults;
  notes.insert(notes.end(), result.warnings.begin(), result.warnings.end());
  if (!notes.empty()) page.list("warnings", notes);
  add_timeline(page, result);
  add_floors(page, result);
  add_stages(page, result);
  add_paths(page, result);
  add_network(page, result);
  if (result.congestion) {
    page.raw(fmt::format("<p class=\"note\">congestion control: {}</p>\n",
                         escape_html(congestion_text(*result.congestion))));
  }
  if (!result.fidelity_reason.empty()) {
    page.raw(fmt::format("<p class=\"note\">fidelity {}: {}</p>\n", escape_html(result.fidelity),
                         escape_html(result.fidelity_reason)));
  }
  page.scenario(scenario);
  return page.take();
}

}  // namespace engram::tools
