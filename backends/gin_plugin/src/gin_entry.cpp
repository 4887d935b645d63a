// ncclGinPlugin_v14: GIN of type GPI. NCCL finds it through NCCL_GIN_PLUGIN.
#include "entry.hpp"

namespace engram::gin_plugin {
namespace {

abi::Status gin_properties(abi::GinProperties* properties) {
  *properties = {true, true};
  return abi::Status::success;
}

abi::Status properties(int device, abi::NetProperties* properties) {
  describe_device(device, *properties);
  properties->device_type = abi::kDeviceGinGpi;
  properties->device_version = abi::kGpiVersion;
  return abi::Status::success;
}

abi::Status create_context(void* comm, abi::GinConfig* config, void** gin_ctx,
                           abi::DeviceHandle** handle) {
  auto* c = static_cast<Comm*>(comm);
  auto set = c->fabric->create_gpi(
      {config->num_contexts, config->num_signals, config->num_counters, config->queue_depth});
  if (!set) return report(c->plugin, set.error());
  *handle = handle_of(*set);
  *gin_ctx = new OpenContexts{c, *set};
  return abi::Status::success;
}

abi::Status register_region(void* comm, void* data, std::size_t size, int type, std::uint64_t flags,
                            void** region, void** device_region) {
  const abi::Status status = plugin_register(comm, data, size, type, flags, region);
  if (status == abi::Status::success) {
    const std::uintptr_t id = id_of(static_cast<Region*>(*region));
    *device_region = reinterpret_cast<void*>(id);
  }
  return status;
}

abi::Status register_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t, int,
                             std::uint64_t flags, void** region, void** device_region) {
  return register_region(comm, data, size, type, flags, region, device_region);
}

/// The plugin's own threads do the work; NCCL's has nothing to push.
abi::Status progress(void*) { return abi::Status::success; }

}  // namespace
}  // namespace engram::gin_plugin

extern "C" __attribute__((visibility("default")))
const engram::gin_plugin::abi::GinPlugin ncclGinPlugin_v14 = {
    .name = "engram-gin",
    .init = engram::gin_plugin::plugin_init,
    .devices = engram::gin_plugin::plugin_devices,
    .gin_properties = engram::gin_plugin::gin_properties,
    .properties = engram::gin_plugin::properties,
    .listen = engram::gin_plugin::plugin_listen,
    .connect = engram::gin_plugin::plugin_connect,
    .create_context = engram::gin_plugin::create_context,
    .register_region = engram::gin_plugin::register_region,
    .register_dma_buf = engram::gin_plugin::register_dma_buf,
    .deregister_region = engram::gin_plugin::plugin_deregister,
    .destroy_context = engram::gin_plugin::plugin_destroy_context,
    .close_comm = engram::gin_plugin::plugin_close_comm,
    .close_listener = engram::gin_plugin::plugin_close_listener,
    .progress = engram::gin_plugin::progress,
    .last_error = engram::gin_plugin::plugin_last_error,
    .finalize = engram::gin_plugin::plugin_finalize,
};
