#include <fmt/format.h>
#include <algorithm>

#include "engram/nccl/doctor.hpp"

namespace engram::nccl {
namespace {

std::string_view text_of(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::advice:
      return "advice";
    case Severity::problem:
      return "problem";
  }
  return "unknown";
}

std::string cuda_version(int code) {
  return code == 0 ? "none" : fmt::format("{}.{}", code / 1000, code % 1000 / 10);
}

void write_devices(const Report& report, std::string& out) {
  auto line = std::back_inserter(out);
  for (const DeviceFacts& d : report.devices) {
    fmt::format_to(line, "GPU {}    {} ({}), {} GiB, {} SMs, sm_{}, NUMA {}, NVLinks {}\n", d.index,
                   d.name, d.pci, d.memory.count / kGiB.count, d.num_sms, d.capability, d.numa_node,
                   d.active_nvlinks ? std::to_string(*d.active_nvlinks) : "unknown");
    fmt::format_to(line,
                   "         memory: vmm {}, host segments {}, file descriptors {}, fabric {}, "
                   "RDMA {}\n",
                   d.vmm, d.host_vmm, d.posix_fd, d.fabric, d.rdma_vmm);
  }
  for (const PeerFacts& p : report.peers) {
    fmt::format_to(line, "peers    {} -> {}: loads {}, atomics {}\n", p.from, p.to,
                   p.access ? "yes" : "no", p.atomics ? "yes" : "no");
  }
}

void write_nics(const Report& report, std::string& out) {
  auto line = std::back_inserter(out);
  if (report.nics.empty()) out += "NICs     none\n";
  for (const NicFacts& nic : report.nics) {
    fmt::format_to(line, "NIC      {} ({}, board {}), NUMA {}\n", nic.name, nic.driver, nic.board,
                   nic.numa_node);
    for (const NicPortFacts& port : nic.ports) {
      fmt::format_to(line, "         port {}: {}, {}, {}\n", port.port, port.state, port.link_layer,
                     port.rate);
    }
  }
}

void write_plugins(const Report& report, std::string& out) {
  auto line = std::back_inserter(out);
  for (const PluginFacts& p : report.plugins) {
    std::string entries;
    for (const auto& e : p.entries) entries += (entries.empty() ? "" : ", ") + e;
    fmt::format_to(line, "plug-in  {} ({}): {}{}{}{}\n", p.path,
                   p.variable.empty() ? "nearby, not set" : p.variable,
                   p.name.empty() ? "not looked at" : p.name,
                   p.version.empty() ? "" : " " + p.version,
                   entries.empty() ? "" : "; entry points " + entries,
                   p.oldest_nccl == 0 ? ""
                                      : fmt::format("; NCCL {} to {}", version_text(p.oldest_nccl),
                                                    version_text(p.newest_nccl)));
    if (!p.problem.empty()) fmt::format_to(line, "         not usable: {}\n", p.problem);
    if (!p.remark.empty()) fmt::format_to(line, "         {}\n", p.remark);
  }
}

void write_communicator(const Report& report, std::string& out) {
  auto line = std::back_inserter(out);
  if (!report.communicator) {
    out += "ranks    no communicator was made\n";
    return;
  }
  const CommunicatorFacts& c = *report.communicator;
  fmt::format_to(line,
                 "ranks    {} in {} NVLink domains of {}; GIN {} between all, {} on rails; "
                 "device API {}\n",
                 c.facts.num_ranks, c.facts.num_lsa_teams, c.lsa_size, name_of(c.facts.gin),
                 name_of(c.facts.railed), c.facts.device_api ? "yes" : "no");
  for (const PathFacts& p : report.paths) {
    fmt::format_to(line, "path     {} -> {}: {}\n", p.from.value, p.to.value, p.how);
    for (const auto& why : p.why_not) fmt::format_to(line, "         not by {}\n", why);
  }
}

}  // namespace

std::string to_text(const Report& report) {
  std::string out;
  auto line = std::back_inserter(out);
  // Why there is none stands among the problems below.
  const std::string driver =
      fmt::format("{} for CUDA {}", report.driver_path, cuda_version(report.driver_version));
  fmt::format_to(line, "driver   {}, runtime {}\n",
                 report.driver_path.empty() ? "none that can be used" : driver,
                 cuda_version(report.runtime_version));
  const std::string library =
      fmt::format("{} {}", report.nccl_path, version_text(report.nccl_version));
  fmt::format_to(line, "NCCL     {}, headers {}\n",
                 report.nccl_path.empty() ? "none that can be used" : library,
                 version_text(report.header_version));
  write_devices(report, out);
  write_nics(report, out);
  write_plugins(report, out);
  write_communicator(report, out);
  for (const auto& [name, value] : report.environment) {
    fmt::format_to(line, "set      {}={}\n", name, value);
  }
  for (const Advice& a : report.advice) {
    fmt::format_to(line, "{:<8} {}\n", text_of(a.severity), a.text);
  }
  return out;
}

nlohmann::json to_json(const Report& report) {
  using nlohmann::json;
  json out;
  out["usable"] = report.usable();
  out["driver"] = {{"path", report.driver_path},
                   {"cuda", cuda_version(report.driver_version)},
                   {"runtime", cuda_version(report.runtime_version)},
                   {"problem", report.driver_problem}};
  out["nccl"] = {{"path", report.nccl_path},
                 {"version", report.nccl_version == 0 ? "" : version_text(report.nccl_version)},
                 {"headers", version_text(report.header_version)},
                 {"problem", report.nccl_problem}};
  out["devices"] = json::array();
  for (const DeviceFacts& d : report.devices) {
    json device = {{"index", d.index},       {"name", d.name},
                   {"pci", d.pci},           {"memory_bytes", d.memory.count},
                   {"sms", d.num_sms},       {"capability", d.capability},
                   {"numa", d.numa_node},    {"vmm", d.vmm},
                   {"host_vmm", d.host_vmm}, {"posix_fd", d.posix_fd},
                   {"fabric", d.fabric},     {"rdma_vmm", d.rdma_vmm}};
    device["nvlinks"] = d.active_nvlinks ? json(*d.active_nvlinks) : json(nullptr);
    out["devices"].push_back(std::move(device));
  }
  out["peers"] = json::array();
  for (const PeerFacts& p : report.peers) {
    out["peers"].push_back(
        {{"from", p.from}, {"to", p.to}, {"access", p.access}, {"atomics", p.atomics}});
  }
  out["nics"] = json::array();
  for (const NicFacts& nic : report.nics) {
    json ports = json::array();
    for (const NicPortFacts& p : nic.ports) {
      ports.push_back(
          {{"port", p.port}, {"state", p.state}, {"rate", p.rate}, {"link_layer", p.link_layer}});
    }
    out["nics"].push_back({{"name", nic.name},
                           {"driver", nic.driver},
                           {"board", nic.board},
                           {"numa", nic.numa_node},
                           {"ports", std::move(ports)}});
  }
  out["plugins"] = json::array();
  for (const PluginFacts& p : report.plugins) {
    out["plugins"].push_back({{"variable", p.variable},
                              {"path", p.path},
                              {"name", p.name},
                              {"version", p.version},
                              {"entries", p.entries},
                              {"oldest_nccl", p.oldest_nccl},
                              {"newest_nccl", p.newest_nccl},
                              {"problem", p.problem},
                              {"remark", p.remark}});
  }
  out["environment"] = report.environment;
  out["communicator"] = nullptr;
  if (report.communicator) {
    const CommunicatorFacts& c = *report.communicator;
    out["communicator"] = {{"ranks", c.facts.num_ranks},
                           {"lsa_teams", c.facts.num_lsa_teams},
                           {"lsa_size", c.lsa_size},
                           {"gin", name_of(c.facts.gin)},
                           {"railed_gin", name_of(c.facts.railed)},
                           {"device_api", c.facts.device_api},
                           {"multimem", c.multimem},
                           {"host_rma", c.host_rma}};
  }
  out["paths"] = json::array();
  for (const PathFacts& p : report.paths) {
    out["paths"].push_back({{"from", p.from.value},
                            {"to", p.to.value},
                            {"load_store", p.load_store},
                            {"network", p.network},
                            {"how", p.how},
                            {"why_not", p.why_not}});
  }
  out["advice"] = json::array();
  for (const Advice& a : report.advice) {
    out["advice"].push_back({{"severity", text_of(a.severity)}, {"text", a.text}});
  }
  return out;
}

}  // namespace engram::nccl
