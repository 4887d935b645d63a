// Whether the ranks of a job on this machine get the GIN plugin, and from where.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engram/tools/scenario.hpp"

namespace engram::tools {

/// What decides about the plugin.
struct GinSurroundings {
  bool gpu = false;       ///< the driver's device files exist
  bool rdma_nic = false;  ///< any in /sys/class/infiniband
  std::optional<std::filesystem::path> plugin;
};

/// `program`: this executable; the plugin is looked for beside it and in the build tree it is of.
/// `root`: another root than / for tests.
[[nodiscard]] GinSurroundings look_around(const std::filesystem::path& program,
                                          const std::filesystem::path& root = "/");

/// The executable of this process; empty where /proc does not tell.
[[nodiscard]] std::filesystem::path this_program();

struct GinPluginChoice {
  std::vector<std::pair<std::string, std::string>> variables;  ///< for the ranks' environment
  std::string said;                                            ///< for the user; may be empty
};

/// The plugin where there are GPUs, no NIC and no choice of the user's: NCCL_GIN_PLUGIN,
/// NCCL_RMA_PLUGIN or ENGRAM_GIN=off.
[[nodiscard]] GinPluginChoice choose_gin_plugin(const HostOptions& host,
                                                const GinSurroundings& around);

}  // namespace engram::tools
