#include "engram/nccl/network_fetch.hpp"

#include <algorithm>

#include "engram/kernels/cuda_warp_device.cuh"
#include "engram/kernels/wait_record_device.cuh"
#include "nccl_gin_device.cuh"

namespace engram::nccl {
namespace {

using kernels::CudaWarp;

static_assert(core::GinContext<NcclGin<ncclGin_SegmentDevice>>);
static_assert(core::GinContext<NcclGin<ncclGin_SegmentMixed>>);
static_assert(core::WarpGroup<CudaWarp>);
static_assert(core::WaitErrorSink<kernels::WaitRecordSink>);

template <class Gin>
__device__ core::FetchArgs<Gin, core::IndexReads> protocol_args(const NetworkFetchArgs& args) {
  core::FetchArgs<Gin, core::IndexReads> out;
  out.reads = args.reads;
  out.plan = args.plan;
  out.team = args.reads.router.team;
  out.self = args.self;
  out.grid = args.reads.router.grid;
  out.storage = args.storage;
  out.buffer = args.buffer;
  out.tickets = args.tickets;
  return out;
}

/// Block q drives QP q.
template <class Segment>
__global__ void __launch_bounds__(kMaxFetchWarps* core::kWarpLanes, 1)
    issue_reads_kernel(const __grid_constant__ NetworkFetchArgs args) {
  extern __shared__ std::uint64_t scratch[];
  const std::uint32_t index = threadIdx.x / core::kWarpLanes;
  const NcclGin<Segment> gin{&args.comm, blockIdx.x};
  CudaWarp warp(scratch + index * CudaWarp::kScratchWords);
  core::issue_reads(gin, warp, blockIdx.x, index, protocol_args<NcclGin<Segment>>(args));
}

template <class Segment>
__global__ void __launch_bounds__(kMaxFetchWarps* core::kWarpLanes, 1)
    wait_reads_kernel(const __grid_constant__ NetworkFetchArgs args, std::uint32_t layer,
                      core::Deadline deadline) {
  const NcclGin<Segment> gin{&args.comm, blockIdx.x};
  CudaWarp warp(nullptr);
  kernels::WaitRecordSink sink{args.error};
  core::wait_reads(gin, warp, blockIdx.x, threadIdx.x / core::kWarpLanes,
                   protocol_args<NcclGin<Segment>>(args), layer, deadline, sink);
}

Result<void> launched(const char* name) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, "launching ", name, ": ", cudaGetErrorString(error));
}

Result<void> check(const NetworkFetchArgs& args) {
  if (args.plan.warps < 1 || args.plan.warps > kMaxFetchWarps || args.plan.num_qps < 1) {
    return fail(ErrorCode::invalid_argument, "a fetch of ", args.plan.num_qps, " QPs and ",
                args.plan.warps, " warps a block; at least one QP and 1 to ", kMaxFetchWarps,
                " warps");
  }
  return {};
}

}  // namespace

Result<void> launch_issue_reads(const NetworkFetchArgs& args, cudaStream_t stream) {
  if (auto right = check(args); !right) return right;
  const std::uint32_t warps = std::min(args.plan.warps, args.plan.units_per_qp());
  const std::size_t shared = warps * CudaWarp::kScratchWords * sizeof(std::uint64_t);
  const dim3 threads(warps * core::kWarpLanes);
  if (args.host_segments) {
    issue_reads_kernel<ncclGin_SegmentMixed><<<args.plan.num_qps, threads, shared, stream>>>(args);
  } else {
    issue_reads_kernel<ncclGin_SegmentDevice><<<args.plan.num_qps, threads, shared, stream>>>(args);
  }
  return launched("issue_reads");
}

Result<void> launch_wait_reads(const NetworkFetchArgs& args, LayerIndex layer,
                               std::uint64_t limit_cycles, cudaStream_t stream) {
  if (auto right = check(args); !right) return right;
  const std::uint32_t lanes =
      std::min(args.plan.units_per_qp(), args.plan.warps * core::kWarpLanes);
  const dim3 threads((lanes + core::kWarpLanes - 1) / core::kWarpLanes * core::kWarpLanes);
  const core::Deadline deadline{limit_cycles};
  if (args.host_segments) {
    wait_reads_kernel<ncclGin_SegmentMixed>
        <<<args.plan.num_qps, threads, 0, stream>>>(args, layer.value, deadline);
  } else {
    wait_reads_kernel<ncclGin_SegmentDevice>
        <<<args.plan.num_qps, threads, 0, stream>>>(args, layer.value, deadline);
  }
  return launched("wait_reads");
}

}  // namespace engram::nccl
