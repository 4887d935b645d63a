// The binary interface between NCCL and its GIN and RMA plugins, version 14, written from NCCL's
// published one (src/include/plugin/{gin/gin_v14.h,rma/rma_v14.h,net/net_v12.h} of NCCL 2.30.5 to
// 2.32.3). tests/gin_plugin/abi_test.cpp compares what can be compared with the installed headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engram::gin_plugin::abi {

/// ncclResult_t; only what the plugin answers with.
enum class Status : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
};

/// The NCCL releases this interface was checked against (NCCL_VERSION_CODE's form).
inline constexpr int kOldestNccl = 23005;
inline constexpr int kNewestNccl = 23299;

inline constexpr std::size_t kHandleBytes = 128;                  ///< NCCL_NET_HANDLE_MAXSIZE
inline constexpr int kPointerHost = 0x1;                          ///< NCCL_PTR_HOST
inline constexpr int kPointerCuda = 0x2;                          ///< NCCL_PTR_CUDA
inline constexpr int kPointerDmaBuf = 0x4;                        ///< NCCL_PTR_DMABUF
inline constexpr std::uint64_t kRegionForceOrder = 1 << 0;        ///< NCCL_NET_MR_FLAG_FORCE_SO
inline constexpr std::uint64_t kRegionSignalNeverReset = 1 << 1;  ///< ..._SIGNAL_NEVER_RESET
inline constexpr std::uint32_t kSignalIncrement = 0x1;            ///< NCCL_NET_SIGNAL_OP_INC
inline constexpr std::uint32_t kSignalAdd = 0x2;                  ///< NCCL_NET_SIGNAL_OP_ADD

inline constexpr int kDeviceHost = 0;      ///< NCCL_NET_DEVICE_HOST
inline constexpr int kDeviceGinProxy = 2;  ///< NCCL_NET_DEVICE_GIN_PROXY
inline constexpr int kDeviceGinGpi = 4;    ///< NCCL_NET_DEVICE_GIN_GPI
inline constexpr int kGpiVersion = 100;    ///< NCCL_GIN_GPI_VERSION
inline constexpr int kProxyVersion = 100;  ///< NCCL_GIN_PROXY_VERSION

inline constexpr int kLogWarn = 2;              ///< NCCL_LOG_WARN
inline constexpr int kLogInfo = 3;              ///< NCCL_LOG_INFO
inline constexpr unsigned long kLogNet = 16;    ///< NCCL_NET
inline constexpr unsigned long kLogAll = ~0ul;  ///< NCCL_ALL

extern "C" {
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);
}

struct DeviceHandle {  // ncclNetDeviceHandle_v11_t
  int type;            ///< ncclNetDeviceType
  int version;
  void* handle;  ///< given to device code
  std::size_t size;
  int needs_proxy_progress;
};

struct VirtualDevice {  // ncclNetVDeviceProps_v12_t
  int num_devices;
  int devices[8];
};

struct NetProperties {  // ncclNetProperties_v12_t
  char* name;
  char* pci_path;  ///< may be null: the device then attaches to the first CPU
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency;
  int max_comms;
  int max_receives;  ///< RMA: a queue holds 32 * this many descriptors
  int device_type;   ///< ncclNetDeviceType
  int device_version;
  VirtualDevice virtual_device;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
  int max_multi_request;
  std::int16_t rail_id;
  std::int16_t plane_id;
};

struct GinProperties {  // ncclGinProperties_v14_t
  bool strong_signals;
  bool va_signals;
};

struct GinConfig {  // ncclGinConfig_v14_t; the first five are all that 2.30.5's v13 form has
  int num_signals;
  int num_counters;
  int num_contexts;
  int queue_depth;
  int traffic_class;
};

struct RmaConfig {  // ncclRmaConfig_v14_t, likewise
  int num_contexts;
  int traffic_class;
};

struct GinPlugin {  // ncclGin_v14_t
  const char* name;
  Status (*init)(void** ctx, std::uint64_t comm_id, Logger log);
  Status (*devices)(int* num_devices);
  Status (*gin_properties)(GinProperties* properties);
  Status (*properties)(int device, NetProperties* properties);
  Status (*listen)(void* ctx, int device, void* handle, void** listener);
  Status (*connect)(void* ctx, void* handles[], int num_ranks, int rank, void* listener,
                    void** comm);
  Status (*create_context)(void* comm, GinConfig* config, void** gin_ctx, DeviceHandle** handle);
  Status (*register_region)(void* comm, void* data, std::size_t size, int type, std::uint64_t flags,
                            void** region, void** device_region);
  Status (*register_dma_buf)(void* comm, void* data, std::size_t size, int type,
                             std::uint64_t offset, int fd, std::uint64_t flags, void** region,
                             void** device_region);
  Status (*deregister_region)(void* comm, void* region);
  Status (*destroy_context)(void* gin_ctx);
  Status (*close_comm)(void* comm);
  Status (*close_listener)(void* listener);
  Status (*progress)(void* gin_ctx);
  Status (*last_error)(void* gin_ctx, bool* has_error);
  Status (*finalize)(void* ctx);
};

struct RmaPlugin {  // ncclRma_v14_t
  const char* name;
  Status (*init)(void** ctx, std::uint64_t comm_id, Logger log);
  Status (*devices)(int* num_devices);
  Status (*properties)(int device, NetProperties* properties);
  Status (*listen)(void* ctx, int device, void* handle, void** listener);
  Status (*connect)(void* ctx, void* handles[], int num_ranks, int rank, void* listener,
                    void** comm);
  Status (*create_context)(void* comm, RmaConfig* config, void** rma_ctx);
  Status (*register_region)(void* comm, void* data, std::size_t size, int type, std::uint64_t flags,
                            void** region);
  Status (*register_dma_buf)(void* comm, void* data, std::size_t size, int type,
                             std::uint64_t offset, int fd, std::uint64_t flags, void** region);
  Status (*deregister_region)(void* comm, void* region);
  Status (*destroy_context)(void* rma_ctx);
  Status (*close_comm)(void* comm);
  Status (*close_listener)(void* listener);
  Status (*put)(void* rma_ctx, int context, std::uint64_t src_offset, void* src_region,
                std::size_t size, std::uint64_t dst_offset, void* dst_region, std::uint32_t rank,
                void** request);
  Status (*put_signal)(void* rma_ctx, int context, std::uint64_t src_offset, void* src_region,
                       std::size_t size, std::uint64_t dst_offset, void* dst_region,
                       std::uint32_t rank, std::uint64_t signal_offset, void* signal_region,
                       std::uint64_t signal_value, std::uint32_t signal_op, bool strong,
                       void** request);
  Status (*get)(void* rma_ctx, int context, std::uint64_t remote_offset, void* remote_region,
                std::size_t size, std::uint64_t local_offset, void* local_region,
                std::uint32_t rank, void** request);
  Status (*flush)(void* rma_ctx, int context, void* region, std::uint32_t rank, void** request);
  Status (*test)(void* comm, void* request, int* done);
  Status (*progress)(void* rma_ctx);
  Status (*last_error)(void* rma_ctx, bool* has_error);
  Status (*finalize)(void* ctx);
};

// What NCCL's device code keeps for a GPI context (gin_gpi_device_host_common.h, version 100).

struct alignas(64) ConsumerIndex {  // gpi_ci_t
  std::uint64_t value;
};
struct alignas(64) Signal {  // gpi_signal_t
  std::uint64_t value;
  std::uint64_t flags;
};
struct alignas(64) Counter {  // gpi_counter_t
  std::uint64_t value;
};
struct Channel {         // gpi_gpu_channel_t with its Queue_t
  Counter* counters;     ///< [num_counters user, then num_ranks flush counters]
  Signal* signals;       ///< directly behind `counters`: device code takes the difference
  std::uintptr_t* ring;  ///< [1 << log_depth] descriptors of 64 bytes
  std::uint64_t produced;
  ConsumerIndex* consumed;
  std::uint64_t consumed_shadow;
  std::uint32_t log_depth;
};

static_assert(sizeof(Counter) == 64 && sizeof(Signal) == 64 && sizeof(ConsumerIndex) == 64);
static_assert(sizeof(Channel) == 56);

}  // namespace engram::gin_plugin::abi
