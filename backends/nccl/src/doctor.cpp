#include "engram/nccl/doctor.hpp"

#include <algorithm>
#include <charconv>

namespace engram::nccl {
namespace {

std::optional<std::string> get(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

Result<std::optional<std::int64_t>> number(const Environment& environment, std::string_view name) {
  const auto text = get(environment, name);
  if (!text) return std::optional<std::int64_t>{};
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end) {
    return fail(ErrorCode::invalid_argument, name, "='", *text, "' is not a whole number");
  }
  return std::optional<std::int64_t>(value);
}

bool is_zero(const Environment& environment, std::string_view name) {
  return get(environment, name) == "0";
}

bool port_up(const NicFacts& nic) {
  for (const NicPortFacts& port : nic.ports) {
    if (port.state.find("ACTIVE") != std::string::npos) return true;
  }
  return false;
}

/// Why NCCL reports no GIN type, from what can be seen without it.
std::vector<std::string> why_no_gin(const Report& report) {
  std::vector<std::string> reasons;
  const Environment& env = report.environment;
  if (is_zero(env, "NCCL_GIN_ENABLE")) reasons.push_back("NCCL_GIN_ENABLE=0");
  if (is_zero(env, "NCCL_CUMEM_ENABLE"))
    reasons.push_back("NCCL_CUMEM_ENABLE=0: no symmetric memory");
  if (is_zero(env, "NCCL_WIN_ENABLE")) reasons.push_back("NCCL_WIN_ENABLE=0: no windows");
  if (is_zero(env, "NCCL_CROSS_NIC")) {
    reasons.push_back("NCCL_CROSS_NIC=0: rails only, no connections between all ranks");
  }
  bool up = false;
  for (const NicFacts& nic : report.nics) up = up || port_up(nic);
  if (report.nics.empty()) {
    reasons.push_back("no RDMA NIC in /sys/class/infiniband");
  } else if (!up) {
    reasons.push_back("no port of any RDMA NIC is ACTIVE");
  }
  for (const DeviceFacts& device : report.devices) {
    if (!device.rdma_vmm) {
      reasons.push_back(fmt::format(
          "device {} has no GPUDirect RDMA with virtual memory management", device.index));
    }
  }
  const auto names_one = [&](const char* variable) {
    const auto value = get(env, variable);
    return value && *value != "none";
  };
  const bool plugin = names_one("NCCL_GIN_PLUGIN") || names_one("NCCL_RMA_PLUGIN");
  if (report.nics.empty() && !plugin) {
    const bool nearby = !report.plugins.empty() && !report.plugins.front().none;
    reasons.push_back(fmt::format("no plug-in instead of a NIC (NCCL_GIN_PLUGIN={}{})",
                                  nearby ? report.plugins.front().path : "/path/lib.so",
                                  nearby ? ", which `engram launch` sets" : ""));
  }
  for (const PluginFacts& p : report.plugins) {
    if (!p.problem.empty()) reasons.push_back(fmt::format("plug-in {}: {}", p.path, p.problem));
  }
  return reasons;
}

/// The plug-in that `variable` names and NCCL can use; null where there is none.
const PluginFacts* usable_plugin(const Report& report, std::string_view variable) {
  const auto found = std::find_if(
      report.plugins.begin(), report.plugins.end(),
      [&](const PluginFacts& p) { return p.variable == variable && p.problem.empty() && !p.none; });
  return found == report.plugins.end() ? nullptr : &*found;
}

/// " through engram-gin" where a plug-in, not a NIC, carries that type of GIN.
std::string served_by(const Report& report, ncclGinType_t type) {
  const char* variable = type == NCCL_GIN_TYPE_GPI     ? "NCCL_GIN_PLUGIN"
                         : type == NCCL_GIN_TYPE_PROXY ? "NCCL_RMA_PLUGIN"
                                                       : nullptr;
  const PluginFacts* plugin = variable != nullptr ? usable_plugin(report, variable) : nullptr;
  if (plugin == nullptr) return "";
  return fmt::format(" through {}", plugin->name.empty() ? plugin->path : plugin->name);
}

void find_paths(Report& report) {
  report.paths.clear();
  if (!report.communicator) return;
  const CommunicatorFacts& comm = *report.communicator;
  for (std::uint32_t a = 0; a < comm.facts.num_ranks; ++a) {
    for (std::uint32_t b = 0; b < comm.facts.num_ranks; ++b) {
      PathFacts path;
      path.from = Rank{a};
      path.to = Rank{b};
      path.self = a == b;
      path.load_store = a / comm.lsa_size == b / comm.lsa_size;
      const bool on_rail = a % comm.lsa_size == b % comm.lsa_size;
      const bool full = comm.facts.gin != NCCL_GIN_TYPE_NONE;
      path.network = !path.self && (full || (on_rail && comm.facts.railed != NCCL_GIN_TYPE_NONE));
      const ncclGinType_t type = full ? comm.facts.gin : comm.facts.railed;
      const std::string gin = fmt::format("GIN {}{}", name_of(type), served_by(report, type));
      path.how = path.self ? "own memory"
                 : path.load_store
                     ? (path.network ? "loads and stores, " + gin : "loads and stores")
                 : path.network ? gin
                                : "none";
      if (!path.load_store) {
        path.why_not.push_back(
            fmt::format("loads and stores: ranks {} and {} are in different "
                        "NVLink domains of {} ranks",
                        a, b, comm.lsa_size));
      }
      if (!path.network && !path.self) {
        if (!on_rail && comm.facts.railed != NCCL_GIN_TYPE_NONE) {
          path.why_not.push_back("network: different rails, and NCCL offers rails only");
        } else {
          for (const auto& reason : why_no_gin(report))
            path.why_not.push_back("network: " + reason);
        }
      }
      report.paths.push_back(std::move(path));
    }
  }
}

void advise_nics(Report& report) {
  const auto say = [&](Severity severity, std::string text) {
    report.advice.push_back({severity, std::move(text)});
  };
  bool mellanox = false;
  for (const NicFacts& nic : report.nics) {
    mellanox = mellanox || nic.driver.starts_with("mlx5");
    for (const NicPortFacts& port : nic.ports) {
      if (port.state.find("ACTIVE") == std::string::npos) {
        say(Severity::problem,
            fmt::format("NIC {} port {} is '{}', not ACTIVE", nic.name, port.port, port.state));
      }
    }
  }
  if (mellanox) {
    say(Severity::advice,
        "atomics: remote adds are faster with PCI_ATOMIC_MODE=4 (mlxconfig -d DEVICE q "
        "PCI_ATOMIC_MODE); without fast atomics plan 129 QPs in hybrid mode, with them 65");
    say(Severity::advice,
        "routing: adaptive routing avoids ECMP collisions between reads of many QPs; it is set per "
        "service level in the subnet manager (InfiniBand) or per priority in the switch (RoCE)");
  }
  if (!report.nics.empty() && !report.peer_memory_module) {
    say(Severity::advice,
        "nvidia_peermem is not loaded: registration of GPU memory relies on DMA-BUF (kernel 5.12 "
        "or newer, rdma-core 34 or newer)");
  }
  if (!report.nics.empty() && report.devices.size() > report.nics.size()) {
    say(Severity::advice, fmt::format("{} GPUs share {} NICs: NCCL divides them, but check that no "
                                      "two busy ranks use the same one",
                                      report.devices.size(), report.nics.size()));
  }
  const auto level = get(report.environment, "NCCL_IB_SL");
  const auto traffic = get(report.environment, "NCCL_IB_TC");
  if (!report.nics.empty()) {
    say(Severity::advice,
        fmt::format(
            "service level: device communicators ask for traffic class 3; NCCL_IB_SL is {}, "
            "NCCL_IB_TC is {}; both must map to a lossless lane of the fabric",
            level.value_or("unset"), traffic.value_or("unset")));
  }
}

void advise_memory(Report& report) {
  const auto say = [&](Severity severity, std::string text) {
    report.advice.push_back({severity, std::move(text)});
  };
  const Environment& env = report.environment;
  if (is_zero(env, "NCCL_ELASTIC_BUFFER_REGISTER")) {
    say(Severity::problem, "NCCL_ELASTIC_BUFFER_REGISTER=0: windows with host memory are refused");
  }
  if (get(env, "NCCL_SYM_REUSE_SYSMEM_HANDLES") != "1") {
    say(Severity::advice,
        "hybrid windows (host segments of all ranks of a node) need "
        "NCCL_SYM_REUSE_SYSMEM_HANDLES=1: NCCL cannot export an imported handle again");
  } else {
    say(Severity::advice,
        "NCCL_SYM_REUSE_SYSMEM_HANDLES=1 serves hybrid windows; elastic windows (one host segment "
        "a "
        "rank) are refused with it, for peers' segments would read as the own one");
  }
  if (!get(env, "NCCL_WIN_STRIDE") && !report.devices.empty()) {
    Bytes largest{0};
    for (const DeviceFacts& d : report.devices) largest = std::max(largest, d.memory);
    say(Severity::advice,
        fmt::format("a window larger than the largest GPU memory ({} GiB) needs NCCL_WIN_STRIDE, "
                    "aligned to 4 GiB",
                    largest.count / kGiB.count));
  }
  for (const DeviceFacts& d : report.devices) {
    if (!d.host_vmm) {
      say(Severity::problem, fmt::format("device {}: no host memory by virtual memory management; "
                                         "host segments cannot be made",
                                         d.index));
    }
    if (d.active_nvlinks == 0 && report.devices.size() > 1) {
      say(Severity::problem, fmt::format("device {}: no active NVLink", d.index));
    }
  }
  for (const PeerFacts& p : report.peers) {
    if (!p.access) {
      say(Severity::problem, fmt::format("device {} cannot access device {}: rows between them go "
                                         "through the network",
                                         p.from, p.to));
    }
  }
}

}  // namespace

Result<NcclSettings> settings_from(const Environment& environment) {
  NcclSettings settings;
  const auto reuse = number(environment, "NCCL_SYM_REUSE_SYSMEM_HANDLES");
  const auto elastic = number(environment, "NCCL_ELASTIC_BUFFER_REGISTER");
  const auto stride = number(environment, "NCCL_WIN_STRIDE");
  for (const auto* value : {&reuse, &elastic, &stride}) {
    if (!*value) return tl::unexpected<Error>(value->error());
  }
  settings.reuse_sysmem_handles = reuse->value_or(0) == 1;
  settings.elastic_buffer_register = elastic->value_or(1) != 0;
  if (stride->value_or(-1) > 0) {
    settings.window_stride = Bytes{static_cast<std::uint64_t>(**stride)};
  }
  return settings;
}

bool Report::usable() const {
  return driver_problem.empty() && nccl_problem.empty() && !devices.empty();
}

void diagnose(Report& report) {
  report.advice.clear();
  const auto say = [&](Severity severity, std::string text) {
    report.advice.push_back({severity, std::move(text)});
  };
  if (!report.driver_problem.empty()) say(Severity::problem, report.driver_problem);
  if (!report.nccl_problem.empty()) say(Severity::problem, report.nccl_problem);
  if (!report.communicator_problem.empty()) say(Severity::problem, report.communicator_problem);
  for (const PluginFacts& p : report.plugins) {
    if (!p.variable.empty() && !p.problem.empty()) {
      say(Severity::problem, fmt::format("{}={}: {}", p.variable, p.path, p.problem));
    }
    if (!p.variable.empty() && !p.none &&
        get(report.environment, "CUDA_MODULE_LOADING") != "EAGER") {
      say(Severity::advice,
          fmt::format("{} is set: set CUDA_MODULE_LOADING=EAGER too, or have every kernel loaded "
                      "before one waits in GIN; loading waits for running kernels, and a plug-in "
                      "on the CPU cannot serve them meanwhile",
                      p.variable));
    }
  }
  if (usable_plugin(report, "NCCL_GIN_PLUGIN") && usable_plugin(report, "NCCL_RMA_PLUGIN")) {
    const bool gpi = get(report.environment, "NCCL_GIN_TYPE") == "4";
    say(Severity::advice,
        gpi ? "both plug-in variables are set: NCCL_GIN_PLUGIN serves, by NCCL_GIN_TYPE=4"
            : "both plug-in variables are set: from NCCL 2.31 on NCCL_RMA_PLUGIN (GIN proxy) "
              "serves and NCCL_GIN_PLUGIN (GIN gpi, faster) is left; unset NCCL_RMA_PLUGIN, or "
              "set NCCL_GIN_TYPE=4");
  }
  find_paths(report);
  const bool gin = report.communicator && (report.communicator->facts.gin != NCCL_GIN_TYPE_NONE ||
                                           report.communicator->facts.railed != NCCL_GIN_TYPE_NONE);
  if (!gin) {
    const Severity severity = report.communicator ? Severity::advice : Severity::note;
    std::string text = report.communicator ? "NCCL offers no GIN type" : "GIN may be missing";
    const auto reasons = why_no_gin(report);
    for (std::size_t i = 0; i < reasons.size(); ++i) text += (i == 0 ? ": " : "; ") + reasons[i];
    if (!reasons.empty() || report.communicator) say(severity, text);
  }
  advise_nics(report);
  advise_memory(report);
}

}  // namespace engram::nccl
