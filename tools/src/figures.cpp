#include "figures.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace engram::tools {
namespace {

/// Three digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

}  // namespace

std::string show(Nanos time) {
  const auto ns = static_cast<double>(time.count());
  if (ns < 1000) return fmt::format("{} ns", time.count());
  if (ns < 999.5e3) return three_digits(ns / 1e3) + " us";
  if (ns < 999.5e6) return three_digits(ns / 1e6) + " ms";
  return three_digits(ns / 1e9) + " s";
}

std::string show(Bytes size) {
  const auto bytes = static_cast<double>(size.count);
  if (bytes < 1000) return fmt::format("{} B", size.count);
  if (bytes < 999.5e3) return three_digits(bytes / 1e3) + " kB";
  if (bytes < 999.5e6) return three_digits(bytes / 1e6) + " MB";
  return three_digits(bytes / 1e9) + " GB";
}

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string failure_time(const RunResult& r) {
  return fmt::format("at {}{}; {} had ended", show(*r.failed_at),
                     r.simulated ? " of simulated time" : "",
                     r.repeats == 0 ? "no repeat" : counted(r.repeats, "repeat"));
}

std::string congestion_text(const RunResult::Congestion& c) {
  const std::string marked = fmt::format("{} marked {}", c.scheme, counted(c.marked, "packet"));
  if (c.cuts == 0) {
    return fmt::format("{} and slowed no sender; the longest queue at a switch was {}", marked,
                       show(c.longest_queue));
  }
  return fmt::format(
      "{} and slowed senders {}, at most to {:.2f} GB/s; the longest queue at a "
      "switch was {}",
      marked, c.cuts == 1 ? "once" : grouped(c.cuts) + " times", c.slowest.value / 1e9,
      show(c.longest_queue));
}

std::vector<std::pair<std::string, PathUse>> named_paths(const PathShares& paths) {
  return {{"own memory", paths.local},
          {"NVLink", paths.nvlink},
          {"host memory", paths.host},
          {"RDMA", paths.rdma}};
}

std::vector<LinkLoad> busiest_links(std::vector<LinkLoad> links, std::size_t most) {
  std::erase_if(links, [](const LinkLoad& link) { return link.carried.count == 0; });
  std::sort(links.begin(), links.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.busy != b.busy ? a.busy > b.busy : a.name < b.name;
  });
  if (links.size() > most) links.resize(most);
  return links;
}

}  // namespace engram::tools
