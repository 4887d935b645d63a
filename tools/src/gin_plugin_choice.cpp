#include "gin_plugin_choice.hpp"

#include <fmt/format.h>

namespace engram::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libengram_gin.so";

}  // namespace

GinSurroundings look_around(const fs::path& program, const fs::path& root) {
  GinSurroundings around;
  std::error_code error;
  around.gpu = fs::exists(root / "dev/nvidiactl", error);
  const fs::path nics = root / "sys/class/infiniband";
  around.rdma_nic = fs::is_directory(nics, error) && !fs::is_empty(nics, error);
  const fs::path folder = program.parent_path();
  // Installed, then as a build tree lays it out.
  for (const char* place : {"../lib", "../lib64", "../lib/x86_64-linux-gnu",
                            "../lib/aarch64-linux-gnu", ".", "../backends/gin_plugin"}) {
    const fs::path candidate = fs::weakly_canonical(folder / place / kLibrary, error);
    if (!error && fs::is_regular_file(candidate, error)) {
      around.plugin = candidate;
      break;
    }
  }
  return around;
}

fs::path this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

GinPluginChoice choose_gin_plugin(const HostOptions& host, const GinSurroundings& around) {
  GinPluginChoice choice;
  const auto is_set = [&](const char* name) { return host.variables.contains(name); };
  const bool chosen = is_set("NCCL_GIN_PLUGIN") || is_set("NCCL_RMA_PLUGIN");
  if (!host.gin || chosen || !around.gpu || around.rdma_nic || !around.plugin) return choice;
  choice.variables.emplace_back("NCCL_GIN_PLUGIN", around.plugin->string());
  // All ranks are on this machine, which may have no other interface that is up.
  if (!is_set("NCCL_SOCKET_IFNAME")) choice.variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  // With CUDA's own 8 queues the plugin's streams come to lie behind a kernel that waits for them.
  if (!is_set("CUDA_DEVICE_MAX_CONNECTIONS")) {
    choice.variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  }
  // Lazy loading of a kernel waits for kernels that run, and these may wait for the plugin, whose
  // own driver calls wait for the load.
  if (!is_set("CUDA_MODULE_LOADING")) choice.variables.emplace_back("CUDA_MODULE_LOADING", "EAGER");
  std::string list;
  for (const auto& [name, value] : choice.variables) {
    list += fmt::format("{}{}={}", list.empty() ? "" : " ", name, value);
  }
  choice.said = fmt::format(
      "no RDMA NIC here: GIN goes through the GIN plugin ({}); ENGRAM_GIN=off goes without", list);
  return choice;
}

}  // namespace engram::tools
