#include "engram/tools/environment.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace engram::tools {
namespace {

struct Variable {
  const char* name;
  std::string_view accepted, meaning;
};

constexpr Variable kServiceLevel{"ENGRAM_SERVICE_LEVEL", "an integer from 0 to 15",
                                 "replaces `cluster.network.service_level`"};
constexpr Variable kGin{"ENGRAM_GIN", "on, off",
                        "off: as if this machine had no GPU-initiated network"};
constexpr Variable kNic{"ENGRAM_NIC", "a device name", "the one NIC to use, such as mlx5_0"};
constexpr Variable kLog{"ENGRAM_LOG", "error, warning, info, debug",
                        "what is logged to standard error; default warning"};
constexpr Variable kNccl{"ENGRAM_NCCL_LIBRARY", "a path", "the libnccl.so.2 to load"};
constexpr Variable kNewerNccl{"ENGRAM_NCCL_NEWER", "on, off",
                              "on: also an NCCL newer than the headers of the build, of the same "
                              "major version; not measured"};
constexpr Variable kCache{"ENGRAM_KERNEL_CACHE", "a folder", "keeps compiled kernels"};
constexpr std::array kVariables{kServiceLevel, kGin, kNic, kLog, kNccl, kNewerNccl, kCache};

std::string value_of(const GetVariable& get, const char* name) {
  const char* text = name ? get(name) : nullptr;
  return text ? text : "";
}

Result<std::uint32_t> whole_number(const char* name, const std::string& text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > most) {
    return fail(ErrorCode::invalid_argument, "environment variable ", name, ": \"", text,
                "\"; accepted: an integer from 0 to ", most);
  }
  return value;
}

/// Where ranks meet that a launcher tells nothing else; see rendezvous/identity.hpp.
std::string_view meeting_of(rendezvous::Launcher launcher) {
  switch (launcher) {
    case rendezvous::Launcher::engram_launch:
      return "`ENGRAM_RENDEZVOUS`";
    case rendezvous::Launcher::torchrun:
      return "`MASTER_ADDR` `MASTER_PORT`";
    case rendezvous::Launcher::slurm:
      return "`SLURM_STEP_NODELIST`, `SLURM_JOB_NODELIST`";
    case rendezvous::Launcher::single:
    case rendezvous::Launcher::open_mpi:
    case rendezvous::Launcher::pmi:
      break;
  }
  return "";
}

}  // namespace

Result<Environment> read_environment(const GetVariable& get) {
  Environment environment;
  if (const auto text = value_of(get, kServiceLevel.name); !text.empty()) {
    const auto level = whole_number(kServiceLevel.name, text, 15);
    if (!level) return tl::unexpected(level.error());
    environment.service_level = *level;
  }
  for (const auto& [variable, into] : {std::pair{kGin, &environment.host.gin},
                                       std::pair{kNewerNccl, &environment.host.nccl_newer}}) {
    const auto text = value_of(get, variable.name);
    if (text.empty()) continue;
    if (text != "on" && text != "off") {
      return fail(ErrorCode::invalid_argument, "environment variable ", variable.name, ": \"", text,
                  "\"; accepted: ", variable.accepted);
    }
    *into = text == "on";
  }
  if (const auto text = value_of(get, kLog.name); !text.empty()) {
    constexpr std::array<std::string_view, 4> kLevels{"error", "warning", "info", "debug"};
    std::size_t level = 0;
    while (level < kLevels.size() && kLevels[level] != text) ++level;
    if (level == kLevels.size()) {
      return fail(ErrorCode::invalid_argument, "environment variable ", kLog.name, ": \"", text,
                  "\"; accepted: ", kLog.accepted);
    }
    environment.log_level = static_cast<LogLevel>(level);
  }
  environment.host.nic = value_of(get, kNic.name);
  environment.host.nccl_library = value_of(get, kNccl.name);
  environment.host.kernel_cache = value_of(get, kCache.name);
  const auto job = rendezvous::job_place([&get](std::string_view name) {
    const char* text = get(std::string(name).c_str());
    return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
  });
  if (!job) return within(job.error(), "environment variable");
  environment.job = *job;
  return environment;
}

std::string environment_reference() {
  std::string text =
      "# Environment\n\nRead once, by `main`; nothing else of the programs reads the environment. "
      "A "
      "variable that is empty counts as unset. The GIN plugin, which any program may load, has its "
      "own: [its README](../backends/gin_plugin/README.md).\n\n| variable | accepted | meaning "
      "|\n|---|---|---|\n";
  for (const auto& variable : kVariables) {
    text += fmt::format("| `{}` | {} | {} |\n", variable.name, variable.accepted, variable.meaning);
  }
  text +=
      "\nWhich process of a job this is comes from its launcher; the first whose rank and size are "
      "set counts.\n\n| launcher | rank | ranks | where they meet |\n|---|---|---|---|\n";
  for (const auto& names : rendezvous::launcher_variables()) {
    text += fmt::format("| {} | `{}` | `{}` | {} |\n", name_of(names.launcher), names.rank,
                        names.num_ranks, meeting_of(names.launcher));
  }
  text +=
      "\n`engram launch` also sets `ENGRAM_LOCAL_RANK`, `ENGRAM_NUM_LOCAL_RANKS` (rank and ranks "
      "of "
      "this host), `ENGRAM_JOB_ID` (tells jobs of one port apart), `ENGRAM_SECRET` (every rank "
      "proves "
      "that it knows it; needed for ranks on several hosts) and `ENGRAM_RENDEZVOUS_FD` (rank 0's "
      "listening socket). They may be set by hand, and come before another launcher's.\n\n"
      "Ranks meet at rank 0, at `ENGRAM_RENDEZVOUS` = HOST:PORT; else at `MASTER_ADDR` and "
      "`MASTER_PORT` + 1, as torchrun's own store listens on that port; else at Slurm's first "
      "node; "
      "else on loopback. Without a given port it follows from the job id: 20000 to 39999, so two "
      "jobs "
      "of one host need different ids. Whoever is missing 60 s after the start is named, and all "
      "ranks end.\n";
  return text;
}

}  // namespace engram::tools
