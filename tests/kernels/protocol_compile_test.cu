// Core's protocols compile for a GPU on any machine with nvcc: building this file is the test.
#include <cstdint>

#include "engram/core/barrier_protocol.hpp"
#include "engram/core/fetch_protocol.hpp"
#include "engram/kernels/cuda_warp_device.cuh"
#include "engram/kernels/wait_record_device.cuh"

namespace engram::kernels {
namespace {

/// The least that satisfies core::GinContext: peers' windows are pointers.
struct PointerGin {
  struct Window {
    std::byte* const* peers;
  };
  struct Request {
    std::uint64_t posted[2];
  };

  __device__ void get(core::Team, std::uint32_t peer, Window src, std::uint64_t src_offset,
                      Window dst, std::uint64_t dst_offset, std::uint32_t bytes, core::Ring) const {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      dst.peers[self][dst_offset + i] = src.peers[peer][src_offset + i];
    }
  }
  __device__ void put(core::Team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                      Window src, std::uint64_t src_offset, std::uint32_t bytes, core::Ring) const {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      dst.peers[peer][dst_offset + i] = src.peers[self][src_offset + i];
    }
  }
  __device__ void put_value(core::Team, std::uint32_t peer, Window dst, std::uint64_t offset,
                            std::uint64_t value, core::Ring) const {
    *reinterpret_cast<std::uint64_t*>(dst.peers[peer] + offset) = value;
  }
  __device__ void remote_add(core::Team, std::uint32_t peer, Window dst, std::uint64_t offset,
                             std::uint64_t value, core::Ring) const {
    atomicAdd_system(reinterpret_cast<unsigned long long*>(dst.peers[peer] + offset), value);
  }
  __device__ void signal(core::Team, std::uint32_t peer, core::SignalId id,
                         std::uint64_t value) const {
    atomicAdd_system(signals[peer] + id.value, static_cast<unsigned long long>(value));
  }
  __device__ std::uint64_t read_signal(core::SignalId id) const {
    return *static_cast<volatile unsigned long long*>(signals[self] + id.value);
  }
  __device__ core::WaitStatus wait_signal(core::SignalId id, std::uint64_t least,
                                          core::Deadline) const {
    while (read_signal(id) < least) {
    }
    return core::WaitStatus::ok;
  }
  __device__ Request flush_async(core::Team, std::uint32_t) const { return {}; }
  __device__ core::WaitStatus wait(Request, core::Deadline) const { return core::WaitStatus::ok; }
  __device__ core::WaitStatus flush(core::Deadline) const { return core::WaitStatus::ok; }
  __device__ std::byte* peer_pointer(core::Team, std::uint32_t peer, Window window,
                                     std::uint64_t offset) const {
    return window.peers[peer] + offset;
  }
  __device__ std::byte* local_pointer(Window window, std::uint64_t offset) const {
    return window.peers[self] + offset;
  }

  std::uint32_t self;
  unsigned long long* const* signals;
};

static_assert(core::GinContext<PointerGin>);
static_assert(core::WarpGroup<CudaWarp>);
static_assert(core::WaitErrorSink<WaitRecordSink>);

using Args = core::FetchArgs<PointerGin, core::IndexReads>;

__global__ void fetch(PointerGin gin, Args args, core::Deadline deadline, ErrorSink errors) {
  __shared__ std::uint64_t scratch[32][CudaWarp::kScratchWords];
  const std::uint32_t index = threadIdx.x / core::kWarpLanes;
  CudaWarp warp(scratch[index]);
  WaitRecordSink sink{errors};
  core::issue_reads(gin, warp, blockIdx.x, index, args);
  for (std::uint32_t l = 0; l < args.reads.num_layers(); ++l) {
    core::gather_direct(gin, warp, index, blockDim.x / core::kWarpLanes, args, l);
    core::wait_reads(gin, warp, blockIdx.x, index, args, l, deadline, sink);
  }
}

__global__ void barrier(PointerGin gin, PointerGin::Window buffer, core::BarrierArgs args,
                        ErrorSink errors) {
  __shared__ std::uint64_t scratch[CudaWarp::kScratchWords];
  CudaWarp warp(scratch);
  WaitRecordSink sink{errors};
  core::network_barrier(gin, warp, core::Team::world, args, sink);
  core::nvlink_barrier(gin, warp, buffer, args, sink);
}

}  // namespace

/// Keeps the kernels from being dropped before they reach ptxas.
extern const void* const kProtocolKernels[];
const void* const kProtocolKernels[] = {reinterpret_cast<const void*>(fetch),
                                        reinterpret_cast<const void*>(barrier)};

}  // namespace engram::kernels
