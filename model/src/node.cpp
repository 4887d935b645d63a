#include "engram/model/node.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "engram/model/quantity.hpp"

namespace engram::model {

std::string_view name_of(PciDistance distance) {
  switch (distance) {
    case PciDistance::one_switch:
      return "one PCI switch";
    case PciDistance::several_switches:
      return "several PCI switches";
    case PciDistance::cpu:
      return "the CPU";
    case PciDistance::between_cpus:
      return "the link between CPUs";
  }
  return "?";
}

PciDistance distance(const PciPlace& a, const PciPlace& b) {
  if (a.cpu != b.cpu) return PciDistance::between_cpus;
  const auto [left, right] = std::ranges::mismatch(a.switches, b.switches);
  if (left == a.switches.begin()) return PciDistance::cpu;
  const bool same = left == a.switches.end() && right == b.switches.end();
  return same ? PciDistance::one_switch : PciDistance::several_switches;
}

std::vector<std::size_t> nearest_nics(const NodeDescription& node) {
  std::vector<std::size_t> nic_of_gpu;
  std::vector<std::size_t> users(node.nics.size());
  for (const NodeGpu& gpu : node.gpus) {
    if (node.nics.empty()) break;
    std::size_t best = 0;
    const auto cost = [&](std::size_t n) {
      return std::tuple(distance(gpu.place, node.nics[n].place), users[n], n);
    };
    for (std::size_t n = 1; n < node.nics.size(); ++n) {
      if (cost(n) < cost(best)) best = n;
    }
    ++users[best];
    nic_of_gpu.push_back(best);
  }
  return nic_of_gpu;
}

std::vector<std::vector<std::size_t>> nvlink_groups(const NodeDescription& node) {
  std::vector<std::size_t> group(node.gpus.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  const auto join = [&](std::size_t a, std::size_t b) {
    std::ranges::replace(group, std::max(group[a], group[b]), std::min(group[a], group[b]));
  };
  for (std::size_t a = 0; a < node.gpus.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const auto to_b = [&](const NvlinkEdge& e) { return e.target == node.gpus[b].place.busid; };
      const auto to_a = [&](const NvlinkEdge& e) { return e.target == node.gpus[a].place.busid; };
      const auto same_switch = [&](const NvlinkEdge& e) {
        return e.to_switch &&
               std::ranges::any_of(node.gpus[b].nvlinks, [&](const NvlinkEdge& other) {
                 return other.to_switch && other.target == e.target;
               });
      };
      if (std::ranges::any_of(node.gpus[a].nvlinks, to_b) ||
          std::ranges::any_of(node.gpus[b].nvlinks, to_a) ||
          std::ranges::any_of(node.gpus[a].nvlinks, same_switch)) {
        join(a, b);
      }
    }
  }
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t first = 0; first < group.size(); ++first) {
    if (group[first] != first) continue;
    groups.emplace_back();
    for (std::size_t g = 0; g < group.size(); ++g) {
      if (group[g] == first) groups.back().push_back(g);
    }
  }
  return groups;
}

namespace {

struct Line {
  const PciPlace* place;
  std::string text;
};

std::string gpu_text(const NodeDescription& node, std::size_t g,
                     const std::vector<std::size_t>& nic_of_gpu) {
  const NodeGpu& gpu = node.gpus[g];
  std::string text = fmt::format("GPU {}{}, sm_{}", gpu.dev,
                                 gpu.rank ? fmt::format(" (rank {})", *gpu.rank) : "", gpu.sm);
  std::uint32_t links = 0;
  for (const NvlinkEdge& edge : gpu.nvlinks) links += edge.count;
  if (links > 0) text += fmt::format(", {} NVLinks", links);
  if (g < nic_of_gpu.size()) {
    const NodeNic& nic = node.nics[nic_of_gpu[g]];
    text += fmt::format(", uses {} across {}", nic.name, name_of(distance(gpu.place, nic.place)));
  }
  return text;
}

}  // namespace

std::string node_tree(const NodeDescription& node) {
  const auto nic_of_gpu = nearest_nics(node);
  std::string text;
  for (std::size_t cpu = 0; cpu < node.cpus.size(); ++cpu) {
    text += fmt::format("CPU, NUMA node {}{}{}\n", node.cpus[cpu].numa,
                        node.cpus[cpu].arch.empty() ? "" : ", " + node.cpus[cpu].arch,
                        node.cpus[cpu].vendor.empty() ? "" : ", " + node.cpus[cpu].vendor);
    std::vector<Line> lines;
    for (std::size_t g = 0; g < node.gpus.size(); ++g) {
      if (node.gpus[g].place.cpu == cpu)
        lines.push_back({&node.gpus[g].place, gpu_text(node, g, nic_of_gpu)});
    }
    for (const NodeNic& nic : node.nics) {
      if (nic.place.cpu != cpu) continue;
      lines.push_back(
          {&nic.place, fmt::format("NIC {} port {}, {}", nic.name, nic.port, to_text(nic.speed))});
    }
    std::ranges::stable_sort(lines, {}, [](const Line& l) { return l.place->switches; });
    const std::vector<std::string>* shown = nullptr;
    for (const Line& line : lines) {
      if (!line.place->switches.empty() && (!shown || *shown != line.place->switches)) {
        text += fmt::format("  PCI switch {}\n", fmt::join(line.place->switches, " > "));
      }
      shown = &line.place->switches;
      text += fmt::format("  {}{} at {}{}\n", line.place->switches.empty() ? "" : "  ", line.text,
                          line.place->busid.empty() ? "no PCI place" : line.place->busid,
                          line.place->rate.value > 0
                              ? fmt::format(", PCIe {:.1f} GB/s", line.place->rate.value / 1e9)
                              : "");
    }
  }
  for (const auto& group : nvlink_groups(node)) {
    if (group.size() < 2) continue;
    std::vector<std::uint32_t> devs;
    for (const std::size_t g : group) devs.push_back(node.gpus[g].dev);
    text += fmt::format("NVLink joins GPUs {}\n", fmt::join(devs, ", "));
  }
  return text;
}

}  // namespace engram::model
