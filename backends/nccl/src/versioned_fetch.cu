#include "engram/nccl/versioned_fetch.hpp"

#include "engram/core/versioned_protocol.hpp"
#include "engram/kernels/cuda_warp_device.cuh"
#include "engram/kernels/wait_record_device.cuh"
#include "nccl_gin_device.cuh"

namespace engram::nccl {
namespace {

using kernels::CudaWarp;

struct VersionRecordSink : kernels::WaitRecordSink {
  std::int32_t rank, layer;
  unsigned long long* again;

  __device__ void report_changing(const core::ChangingRow& row) const {
    kernels::ErrorRecord found;
    found.kind = kernels::ErrorKind::row_kept_changing;
    found.rank = rank;
    found.layer = layer;
    found.slot = static_cast<std::int64_t>(row.read);
    found.seen = row.version;
    found.expected = row.attempts;
    report_error(sink, found);
  }
  __device__ void count_again(std::uint32_t rows) const { atomicAdd(again, rows); }
};

/// Block q drives QP q.
template <class Segment>
__global__ void __launch_bounds__(kVersionedWarps* core::kWarpLanes, 1)
    versioned_reads_kernel(const __grid_constant__ VersionedReadArgs args) {
  __shared__ std::uint64_t scratch[kVersionedWarps * CudaWarp::kScratchWords];
  static_assert(core::VersionSink<VersionRecordSink>);
  using Gin = NcclGin<Segment>;
  const std::uint32_t index = threadIdx.x / core::kWarpLanes;
  const Gin gin{&args.comm, blockIdx.x};
  CudaWarp warp(scratch + index * CudaWarp::kScratchWords);
  core::VersionedArgs<Gin> how;
  how.reads = args.reads;
  how.team = args.reads.router.team;
  how.self = args.self;
  how.grid = args.reads.router.grid;
  how.storage = args.storage;
  how.buffer = args.buffer;
  how.batch = args.batch;
  how.max_attempts = args.max_attempts;
  how.deadline = {args.limit_cycles};
  VersionRecordSink sink{{args.error},
                         static_cast<std::int32_t>(args.self.value),
                         static_cast<std::int32_t>(args.reads.rows_layer),
                         args.again};
  // Neighbouring batches go to different SMs.
  core::read_versioned(gin, warp, how, std::uint64_t{index} * gridDim.x + blockIdx.x,
                       std::uint64_t{gridDim.x} * kVersionedWarps, sink);
}

}  // namespace

Result<void> launch_versioned_reads(const VersionedReadArgs& args, cudaStream_t stream) {
  if (args.reads.num_reads == 0) return {};
  constexpr std::uint32_t kThreads = kVersionedWarps * core::kWarpLanes;
  if (args.host_segments) {
    versioned_reads_kernel<ncclGin_SegmentMixed><<<args.blocks, kThreads, 0, stream>>>(args);
  } else {
    versioned_reads_kernel<ncclGin_SegmentDevice><<<args.blocks, kThreads, 0, stream>>>(args);
  }
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, "launching versioned_reads: ", cudaGetErrorString(error));
}

}  // namespace engram::nccl
