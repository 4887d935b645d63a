#include "engram/tools/environment.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

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
constexpr Variable kCache{"ENGRAM_KERNEL_CACHE", "a folder", "keeps compiled kernels"};
constexpr std::array kVariables{kServiceLevel, kGin, kNic, kLog, kNccl, kCache};

/// How each launcher tells a process its place.
struct Launcher {
  std::string_view name;
  const char *rank, *num_ranks, *address, *port;
};
constexpr std::array kLaunchers{
    Launcher{"engram launch", "ENGRAM_RANK", "ENGRAM_NUM_RANKS", "ENGRAM_RENDEZVOUS", nullptr},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, nullptr},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr, nullptr},
};

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

Result<std::optional<JobPlace>> read_job(const GetVariable& get) {
  for (const auto& launcher : kLaunchers) {
    const auto rank_text = value_of(get, launcher.rank);
    const auto count_text = value_of(get, launcher.num_ranks);
    if (rank_text.empty() || count_text.empty()) continue;
    const auto rank = whole_number(launcher.rank, rank_text, 65535);
    if (!rank) return tl::unexpected(rank.error());
    const auto count = whole_number(launcher.num_ranks, count_text, 65536);
    if (!count) return tl::unexpected(count.error());
    if (*rank >= *count) {
      return fail(ErrorCode::invalid_argument, "environment variable ", launcher.rank, ": rank ",
                  *rank, " of ", *count, " (", launcher.num_ranks, ")");
    }
    JobPlace place{Rank{*rank}, *count, value_of(get, launcher.address), launcher.name};
    if (const auto port = value_of(get, launcher.port); !port.empty())
      place.address += fmt::format(":{}", port);
    return place;
  }
  return std::nullopt;
}

}  // namespace

Result<Environment> read_environment(const GetVariable& get) {
  Environment environment;
  if (const auto text = value_of(get, kServiceLevel.name); !text.empty()) {
    const auto level = whole_number(kServiceLevel.name, text, 15);
    if (!level) return tl::unexpected(level.error());
    environment.service_level = *level;
  }
  if (const auto text = value_of(get, kGin.name); !text.empty()) {
    if (text != "on" && text != "off") {
      return fail(ErrorCode::invalid_argument, "environment variable ", kGin.name, ": \"", text,
                  "\"; accepted: ", kGin.accepted);
    }
    environment.host.gin = text == "on";
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
  auto job = read_job(get);
  if (!job) return tl::unexpected(job.error());
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
  for (const auto& launcher : kLaunchers) {
    const auto quoted = [](const char* name) {
      return name ? fmt::format("`{}`", name) : std::string();
    };
    text += fmt::format("| {} | {} | {} | {}{}{} |\n", launcher.name, quoted(launcher.rank),
                        quoted(launcher.num_ranks), quoted(launcher.address),
                        launcher.port ? " " : "", quoted(launcher.port));
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
