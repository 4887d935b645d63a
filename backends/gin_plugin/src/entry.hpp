// What the GIN and the RMA entry points share: a loaded plugin, its log and NCCL's status codes.
#pragma once

#include <memory>

#include "engram/gin_plugin/fabric.hpp"

namespace engram::gin_plugin {

/// What init() gives NCCL. One per communicator and entry point.
struct Plugin {
  abi::Logger log = nullptr;
  Settings settings;

  void say(bool warning, const std::string& text) const;
};

/// Whether NCCL of `version` (NCCL_VERSION_CODE's form; 0 = not known) can be served. Errors:
/// unsupported, naming both versions. The text is empty, or a remark on a version that is newer
/// than what was checked.
[[nodiscard]] Result<std::string> check_nccl(int version);

/// Errors: invalid_argument for settings that are refused; said in the log by the caller.
[[nodiscard]] Result<std::unique_ptr<Plugin>> load_plugin(abi::Logger log);

/// NCCL's code for an error, which is also written to the log.
[[nodiscard]] abi::Status report(const Plugin& plugin, const Error& error);

/// A communicator of either entry point; `plugin` outlives it.
struct Comm {
  Plugin plugin;  ///< a copy: NCCL may pass connect() another context than init() gave
  std::unique_ptr<Fabric> fabric;
};

struct OpenListener {
  Plugin plugin;
  ListenerPtr listener;
};

struct OpenContexts {
  Comm* comm = nullptr;
  ContextSet* set = nullptr;
};

// The functions that have the same form in both tables.
abi::Status plugin_init(void** ctx, std::uint64_t comm_id, abi::Logger log);
abi::Status plugin_devices(int* num_devices);
abi::Status plugin_listen(void* ctx, int device, void* handle, void** listener);
abi::Status plugin_connect(void* ctx, void* handles[], int num_ranks, int rank, void* listener,
                           void** comm);
abi::Status plugin_register(void* comm, void* data, std::size_t size, int type, std::uint64_t flags,
                            void** region);
abi::Status plugin_deregister(void* comm, void* region);
abi::Status plugin_destroy_context(void* contexts);
abi::Status plugin_close_comm(void* comm);
abi::Status plugin_close_listener(void* listener);
abi::Status plugin_last_error(void* contexts, bool* has_error);
abi::Status plugin_finalize(void* ctx);
/// Fills what both entry points say of a device.
void describe_device(int device, abi::NetProperties& properties);

}  // namespace engram::gin_plugin

/// The process's last plugin error, in words, cut to `size` bytes with its final zero; empty when
/// there was none. For programs that found ncclCommGetAsyncError unhappy.
extern "C" void engram_gin_last_error(char* text, std::size_t size);

/// What this library is, as JSON cut to `size` bytes with its final zero: "version", "interface",
/// "oldest_nccl", "newest_nccl" (NCCL_VERSION_CODE's form) and "problem", settings of the process's
/// environment that are refused. Needs neither NCCL nor a GPU.
extern "C" void engram_gin_about(char* text, std::size_t size);
