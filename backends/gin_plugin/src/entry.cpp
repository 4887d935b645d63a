#include "entry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace engram::gin_plugin {
namespace {

/// The error record behind engram_gin_last_error: one for the process, since that C call has
/// nothing to hang it on.
struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& last_error() {
  static LastError record;
  return record;
}

/// NCCL's own version, if it is in the process where symbols can be found.
int running_nccl() {
  using GetVersion = int (*)(int*);
  auto get = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return 0;
  return version;
}

void copy_text(const std::string& from, char* text, std::size_t size) {
  if (size == 0) return;
  const std::size_t length = std::min(size - 1, from.size());
  std::memcpy(text, from.data(), length);
  text[length] = '\0';
}

/// A version as NCCL counts them from 2.9 on.
std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

}  // namespace

Result<std::string> check_nccl(int version) {
  if (version != 0 && version < abi::kOldestNccl) {
    return fail(ErrorCode::unsupported, "NCCL ", version_text(version), " is older than ",
                version_text(abi::kOldestNccl), ", the first with this plugin interface");
  }
  if (version <= abi::kNewestNccl) return std::string();
  return fmt::format("NCCL {} is newer than {}, the last this plugin was checked against",
                     version_text(version), version_text(abi::kNewestNccl));
}

void Plugin::say(bool warning, const std::string& text) const {
  if (warning) {
    const std::lock_guard lock(last_error().mutex);
    last_error().text = text;
  }
  if (log == nullptr) return;
  log(warning ? abi::kLogWarn : abi::kLogInfo, warning ? abi::kLogAll : abi::kLogNet, "engram_gin",
      0, "Engram GIN: %s", text.c_str());
}

Result<std::unique_ptr<Plugin>> load_plugin(abi::Logger log) {
  auto settings = read_settings(environment_variable);
  auto plugin = std::make_unique<Plugin>();
  plugin->log = log;
  if (!settings) return tl::unexpected(settings.error());
  plugin->settings = *settings;
  auto remark = check_nccl(running_nccl());
  if (!remark) return tl::unexpected(remark.error());
  if (!remark->empty()) plugin->say(false, *remark);
  return plugin;
}

abi::Status report(const Plugin& plugin, const Error& error) {
  plugin.say(true, error.message);
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
      return abi::Status::invalid_argument;
    case ErrorCode::unsupported:
      return abi::Status::invalid_usage;
    case ErrorCode::peer_lost:
    case ErrorCode::timed_out:
      return abi::Status::remote_error;
    case ErrorCode::io:
      return abi::Status::system_error;
    default:
      return abi::Status::internal_error;
  }
}

abi::Status plugin_init(void** ctx, std::uint64_t, abi::Logger log) {
  auto plugin = load_plugin(log);
  if (!plugin) return report(Plugin{log, {}}, plugin.error());
  *ctx = plugin->release();
  return abi::Status::success;
}

abi::Status plugin_devices(int* num_devices) {
  *num_devices = 1;
  return abi::Status::success;
}

void describe_device(int device, abi::NetProperties& properties) {
  static char name[] = "engram_gin0";
  properties = {};
  properties.name = name;
  properties.guid = 0x656e6772616d0000ull + static_cast<unsigned>(device);
  properties.pointer_support = abi::kPointerHost | abi::kPointerCuda | abi::kPointerDmaBuf;
  properties.registration_is_global = 0;
  properties.speed_mbps = 400'000;
  properties.latency = 1;
  properties.max_comms = 1 << 16;
  properties.max_receives = 8;
  properties.max_p2p_bytes = 1ull << 40;
  properties.max_collective_bytes = 1ull << 40;
  properties.max_multi_request = 1;
  properties.rail_id = -1;
  properties.plane_id = -1;
  properties.virtual_device.num_devices = 1;
  properties.virtual_device.devices[0] = device;
}

abi::Status plugin_listen(void* ctx, int, void* handle, void** listener) {
  // NCCL's host RMA passes the net plugin's context here, so `ctx` is not looked into.
  (void)ctx;
  auto plugin = load_plugin(nullptr);
  if (!plugin) return report(Plugin{}, plugin.error());
  auto open = std::make_unique<OpenListener>();
  open->plugin = **plugin;
  auto made =
      open_listener(open->plugin.settings, {static_cast<std::byte*>(handle), abi::kHandleBytes});
  if (!made) return report(open->plugin, made.error());
  open->listener = std::move(*made);
  *listener = open.release();
  return abi::Status::success;
}

abi::Status plugin_connect(void*, void* handles[], int num_ranks, int rank, void* listener,
                           void** comm) {
  auto* open = static_cast<OpenListener*>(listener);
  auto made = std::make_unique<Comm>();
  made->plugin = open->plugin;
  auto device = make_cuda_device(made->plugin.settings.engine);
  if (!device) return report(made->plugin, device.error());
  made->plugin.say(false, (*device)->describe());
  const std::span raw(reinterpret_cast<const std::byte* const*>(handles),
                      static_cast<std::size_t>(num_ranks));
  auto fabric = Fabric::connect(std::move(*device), made->plugin.settings, *open->listener, raw,
                                Rank{static_cast<std::uint32_t>(rank)},
                                [plugin = made->plugin](bool warning, const std::string& text) {
                                  plugin.say(warning, text);
                                });
  if (!fabric) return report(made->plugin, fabric.error());
  made->fabric = std::move(*fabric);
  *comm = made.release();
  return abi::Status::success;
}

abi::Status plugin_register(void* comm, void* data, std::size_t size, int type, std::uint64_t flags,
                            void** region) {
  auto* c = static_cast<Comm*>(comm);
  auto made = c->fabric->register_region(static_cast<std::byte*>(data), Bytes{size},
                                         type == abi::kPointerHost, flags);
  if (!made) return report(c->plugin, made.error());
  *region = *made;
  return abi::Status::success;
}

abi::Status plugin_deregister(void* comm, void* region) {
  if (region != nullptr) {
    static_cast<Comm*>(comm)->fabric->deregister_region(static_cast<Region*>(region));
  }
  return abi::Status::success;
}

abi::Status plugin_destroy_context(void* contexts) {
  const std::unique_ptr<OpenContexts> gone(static_cast<OpenContexts*>(contexts));
  if (gone) gone->comm->fabric->destroy(gone->set);
  return abi::Status::success;
}

abi::Status plugin_close_comm(void* comm) {
  delete static_cast<Comm*>(comm);
  return abi::Status::success;
}

abi::Status plugin_close_listener(void* listener) {
  delete static_cast<OpenListener*>(listener);
  return abi::Status::success;
}

abi::Status plugin_last_error(void* contexts, bool* has_error) {
  *has_error = static_cast<OpenContexts*>(contexts)->comm->fabric->error().has_value();
  return abi::Status::success;
}

abi::Status plugin_finalize(void* ctx) {
  delete static_cast<Plugin*>(ctx);
  return abi::Status::success;
}

}  // namespace engram::gin_plugin

extern "C" __attribute__((visibility("default"))) void engram_gin_last_error(char* text,
                                                                             std::size_t size) {
  using engram::gin_plugin::last_error;
  const std::lock_guard lock(last_error().mutex);
  engram::gin_plugin::copy_text(last_error().text, text, size);
}

extern "C" __attribute__((visibility("default"))) void engram_gin_about(char* text,
                                                                        std::size_t size) {
  using namespace engram::gin_plugin;
  const auto settings = read_settings(environment_variable);
  std::string problem = settings ? "" : settings.error().message;
  for (char& c : problem) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '\'';
  }
  copy_text(fmt::format(R"({{"version":"{}","interface":14,"oldest_nccl":{},"newest_nccl":{},)"
                        R"("problem":"{}"}})",
                        ENGRAM_VERSION, abi::kOldestNccl, abi::kNewestNccl, problem),
            text, size);
}
