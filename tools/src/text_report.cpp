#include "engram/tools/text_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "figures.hpp"

namespace engram::tools {
namespace {

constexpr std::size_t kLinksShown = 5;

/// Lays out a report; every line stays within the width.
class Page {
 public:
  explicit Page(const TextStyle& style) : style_(style) {
    style_.width = std::max(style_.width, 60u);
  }

  void heading(std::string_view text) {
    text_ += '\n';
    text_ += paint("1", std::string(text));
    text_ += '\n';
  }

  void line(std::string_view text) { text_.append(text).append("\n"); }

  /// A paragraph after a mark, broken between words.
  void wrapped(std::string_view mark, std::string_view text) {
    std::string current(mark);
    const std::string indent(mark.size(), ' ');
    while (!text.empty()) {
      const auto space = std::min(text.find(' '), text.size());
      const auto word = text.substr(0, space);
      if (current.size() > mark.size() && current.size() + word.size() + 1 > style_.width) {
        line(current);
        current = indent;
      }
      if (current.size() > mark.size()) current += ' ';
      current += word;
      text.remove_prefix(std::min(space + 1, text.size()));
    }
    line(current);
  }

  /// "  label  figure  |####    | note": `offset` and `length` are shares of the bar, 0..1.
  void bar(std::string_view label, std::string_view figure, double offset, double length,
           std::string_view note = "", const char* colour = "36") {
    constexpr std::size_t kLabel = 18, kFigure = 12, kNote = 9;
    const std::size_t cells = style_.width - (2 + kLabel + 1 + kFigure + 2 + 1 + kNote);
    const auto before = static_cast<std::size_t>(std::clamp(offset, 0.0, 1.0) * double(cells));
    const double filled = std::clamp(length, 0.0, 1.0) * double(cells);
    text_ +=
        fmt::format("  {:<{}.{}} {:>{}}  {}{} {}", label, kLabel, kLabel, figure, kFigure,
                    std::string(before, ' '), paint(colour, blocks(filled, cells - before)), note);
    while (text_.ends_with(' ')) text_.pop_back();
    text_ += '\n';
  }

  std::string paint(std::string_view code, std::string text) const {
    return style_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }

  std::string take() { return std::move(text_); }

 private:
  /// `filled` cells, to an eighth with UTF-8; something is always seen of a bar that is not zero.
  std::string blocks(double filled, std::size_t room) const {
    std::string text;
    filled = std::min(filled, static_cast<double>(room));
    if (!style_.utf8) {
      auto count = static_cast<std::size_t>(filled + 0.5);
      if (filled > 0) count = std::clamp<std::size_t>(count, 1, std::max<std::size_t>(room, 1));
      return std::string(count, '#') + std::string(room - std::min(room, count), ' ');
    }
    static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    auto eighths = static_cast<std::size_t>(filled * 8 + 0.5);
    if (filled > 0) eighths = std::max<std::size_t>(eighths, 1);
    for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
    text += kEighths[eighths % 8];
    const auto used = (eighths + 7) / 8;
    return text + std::string(room - std::min(room, used), ' ');
  }

  TextStyle style_;
  std::string text_;
};

std::string verdict(const RunResult& r, const Page& page) {
  if (!r.failure.empty()) return page.paint("31;1", "FAILED:") + ' ' + r.failure;
  if (!r.verified) return "not checked";
  return *r.verified ? page.paint("32;1", "every byte is right")
                     : page.paint("31;1", "WRONG BYTES");
}

void add_summary(Page& page, const RunResult& r) {
  page.line(fmt::format("{}: {}, {}, profile {}, seed {}", r.operation, counted(r.ranks, "rank"),
                        r.backend, r.profile, r.seed));
  page.wrapped("check: ", verdict(r, page));
  if (r.failed_at) page.wrapped("failed: ", failure_time(r));
  if (r.repeats == 0) return;
  page.wrapped("time:  ",
               fmt::format("{} median ({} to {}); issue {}, wait {}", show(r.time.median),
                           show(r.time.min), show(r.time.max), show(r.issue), show(r.wait)));
  page.wrapped(
      "rate:  ",
      fmt::format("{:.1f} M rows/s a rank, {:.1f} GB/s of rows, {:.1f} GB/s on the wire",
                  r.message_rate.value / 1e6, r.logical_rate.value / 1e9, r.wire_rate.value / 1e9));
  page.wrapped("work:  ", fmt::format("{}, {}, {} of rows, {} on the wire; {}, {}",
                                      counted(r.requests, "request"),
                                      counted(r.doorbells, "doorbell"), show(r.payload),
                                      show(r.wire), counted(r.sms, "SM"), counted(r.qps, "QP")));
}

void add_stages(Page& page, const RunResult& r) {
  if (r.stages.empty()) return;
  page.heading("Where the time went (slowest rank, median repeat)");
  const double total = std::max(double(r.time.median.count()), 1.0);
  double begin = 0;
  for (const auto& [name, time] : r.stages) {
    const double part = double(time.count()) / total;
    // Stages follow one another where they add up; one that overlaps starts at the end at latest.
    page.bar(name, show(time), std::min(begin, std::max(0.0, 1 - part)), part,
             fmt::format("{:>5.1f} %", part * 100));
    begin += part;
  }
}

void add_floors(Page& page, const RunResult& r) {
  if (r.floors.empty()) return;
  page.heading(fmt::format("What each roof alone would take (bound: {})", r.bound));
  Nanos most = r.time.median;
  for (const auto& [name, time] : r.floors) most = std::max(most, time);
  const double scale = std::max(double(most.count()), 1.0);
  for (const auto& [name, time] : r.floors) {
    page.bar(name, show(time), 0, double(time.count()) / scale, name == r.bound ? "<- bound" : "",
             name == r.bound ? "33" : "36");
  }
  if (r.repeats == 0) return;
  page.bar("this run", show(r.time.median), 0, double(r.time.median.count()) / scale, "", "32");
}

void add_paths(Page& page, const RunResult& r) {
  const auto paths = named_paths(r.paths);
  std::uint64_t requests = 0;
  for (const auto& [name, use] : paths) requests += use.requests;
  if (requests == 0) return;
  page.heading("Which way the rows came");
  for (const auto& [name, use] : paths) {
    const double part = double(use.requests) / double(requests);
    page.bar(name, grouped(use.requests), 0, part, fmt::format("{:>5.1f} %", part * 100));
  }
}

void add_links(Page& page, const RunResult& r) {
  const auto busiest = busiest_links(r.links, kLinksShown);
  if (busiest.empty()) return;
  page.heading(fmt::format("Busiest links ({} of {})", busiest.size(), r.links.size()));
  for (const auto& link : busiest) {
    page.bar(link.name, show(link.carried), 0, link.busy,
             fmt::format("{:>5.1f} %", link.busy * 100));
  }
}

}  // namespace

std::string text_report(const RunResult& result, const TextStyle& style) {
  Page page(style);
  add_summary(page, result);
  add_stages(page, result);
  add_floors(page, result);
  add_paths(page, result);
  add_links(page, result);
  if (!result.fidelity_reason.empty()) {
    page.line("");
    page.wrapped("fidelity: ", result.fidelity + ", " + result.fidelity_reason);
  }
  if (result.congestion) page.wrapped("congestion: ", congestion_text(*result.congestion));
  for (const auto& fault : result.faults) page.wrapped("fault: ", fault);
  for (const auto& warning : result.warnings) page.wrapped("warning: ", warning);
  return page.take();
}

std::string text_report(const PlanResult& plan, const TextStyle& style) {
  Page page(style);
  page.line(plan.title);
  std::size_t name_width = 0, value_width = 0;
  const auto value_of = [](const PlanLine& line) {
    return line.unit == "B"
               ? grouped(static_cast<std::uint64_t>(line.value)) + " B"
               : fmt::format("{:.10g}{}{}", line.value, line.unit.empty() ? "" : " ", line.unit);
  };
  for (const auto& line : plan.lines) {
    name_width = std::max(name_width, line.name.size());
    value_width = std::max(value_width, value_of(line).size());
  }
  std::string group;
  for (const auto& line : plan.lines) {
    if (line.group != group) page.heading(group = line.group);
    const auto mark =
        fmt::format("  {:<{}}  {:>{}}  ", line.name, name_width, value_of(line), value_width);
    page.wrapped(mark,
                 "= " + line.formula + (line.roof.empty() ? "" : "  [bound by " + line.roof + "]"));
  }
  for (const auto& warning : plan.warnings) page.wrapped("warning: ", warning);
  return page.take();
}

}  // namespace engram::tools
