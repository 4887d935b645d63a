#include "engram/nccl/rank_barrier.hpp"

#include "engram/kernels/cuda_warp_device.cuh"
#include "engram/kernels/wait_record_device.cuh"
#include "nccl_gin_device.cuh"

namespace engram::nccl {
namespace {

using Gin = NcclGin<ncclGin_SegmentDevice>;  // the workspace is GPU memory
using kernels::CudaWarp;
using SystemWord = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_system>;

__device__ std::uint32_t* arrival(const Gin& gin, const RankBarrierArgs& args, std::uint32_t owner,
                                  std::uint32_t sender) {
  return reinterpret_cast<std::uint32_t*>(
      gin.peer_pointer(core::Team::lsa, owner, args.buffer, kArrivalOffset.count + 4ull * sender));
}

/// Names the first rank of the domain that has not entered.
struct NamingSink {
  const Gin& gin;
  const RankBarrierArgs& args;
  kernels::WaitRecordSink next;

  __device__ void report(core::WaitError error) const {
    const std::uint32_t me = args.grid.nvlink_index(args.self);
    for (std::uint32_t i = 0; i < args.grid.num_nvlink && error.peer_rank == error.kUnset; ++i) {
      const std::uint32_t entered =
          SystemWord(*arrival(gin, args, me, i)).load(cuda::memory_order_relaxed);
      // A signed difference: the count wraps.
      if (static_cast<std::int32_t>(entered - static_cast<std::uint32_t>(args.epoch + 1)) < 0) {
        error.peer_rank = args.grid.rank_of(core::Team::lsa, args.self, Peer{i}).value;
      }
    }
    next.report(error);
  }
};

__device__ void note_arrival(const Gin& gin, CudaWarp& warp, const RankBarrierArgs& args) {
  const std::uint32_t me = args.grid.nvlink_index(args.self);
  for (std::uint32_t first = 0; first < args.grid.num_nvlink; first += core::kWarpLanes) {
    const std::uint32_t left = args.grid.num_nvlink - first;
    warp.for_lanes(left < core::kWarpLanes ? left : core::kWarpLanes, [&](std::uint32_t lane) {
      SystemWord(*arrival(gin, args, first + lane, me))
          .store(static_cast<std::uint32_t>(args.epoch + 1), cuda::memory_order_relaxed);
    });
  }
}

/// One warp.
__global__ void __launch_bounds__(core::kWarpLanes, 1)
    rank_barrier_kernel(const __grid_constant__ RankBarrierArgs args) {
  CudaWarp warp(nullptr);
  const kernels::WaitRecordSink record{args.error};
  const core::BarrierArgs barrier{args.grid, args.self, args.epoch, {args.limit_cycles}};
  const Gin gin{&args.comm, 0};
  if (args.network) {
    for (std::uint32_t first = 0; first < args.num_contexts; first += core::kWarpLanes) {
      const std::uint32_t left = args.num_contexts - first;
      warp.for_lanes(left < core::kWarpLanes ? left : core::kWarpLanes, [&](std::uint32_t lane) {
        const core::WaitStatus status = Gin{&args.comm, first + lane}.flush(barrier.deadline);
        if (status == core::WaitStatus::ok) return;
        record.report({status, args.self.value, core::WaitError::kUnset, first + lane});
      });
    }
    core::network_barrier(gin, warp, args.team, barrier, record);
  }
  if (args.words) {
    note_arrival(gin, warp, args);
    const NamingSink naming{gin, args, record};
    core::nvlink_barrier(gin, warp, args.buffer, barrier, naming);
  }
}

}  // namespace

Result<void> launch_rank_barrier(const RankBarrierArgs& args, cudaStream_t stream) {
  if (args.grid.num_nvlink > kMaxDomainRanks) {
    return fail(ErrorCode::invalid_argument, args.grid.num_nvlink,
                " ranks in one NVLink domain, at most ", kMaxDomainRanks);
  }
  rank_barrier_kernel<<<1, core::kWarpLanes, 0, stream>>>(args);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, "launching rank_barrier: ", cudaGetErrorString(error));
}

}  // namespace engram::nccl
