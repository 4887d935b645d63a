#include "conformance/nccl_kernels.hpp"

#include "engram/kernels/cuda_warp_device.cuh"
#include "nccl_gin_device.cuh"

namespace engram::test {
namespace {

using core::Ring;
using core::Team;
using Gin = nccl::NcclGin<ncclGin_SegmentDevice>;

/// One warp.
__global__ void __launch_bounds__(core::kWarpLanes)
    gin_check_kernel(const __grid_constant__ GinCheck check) {
  const Gin gin{&check.handles.comm, 0};
  const kernels::CudaWarp warp(nullptr);
  const ncclWindow_t buffer = check.handles.buffer;
  const core::Deadline deadline{check.limit_cycles};
  const std::uint64_t free = check.free_offset, slot = check.self * 8ull;
  const core::SignalId all{check.num_ranks}, row{check.num_ranks + 1};
  const auto expect = [&](core::WaitStatus status) {
    if (status != core::WaitStatus::ok) ++check.result[0];
  };
  warp.for_lanes(check.num_ranks, [&](std::uint32_t peer) {
    gin.put_value(Team::world, peer, buffer, free + slot, 0x1000 + check.self, Ring::later);
    gin.remote_add(Team::world, peer, buffer, free + kGinSum, check.self + 1, Ring::later);
    gin.signal(Team::world, peer, all, 1);
  });
  warp.once([&] {
    expect(gin.wait_signal(all, check.num_ranks, deadline));
    expect(gin.flush(deadline));
  });
  // What came by value goes on by put: our column into a second matrix at every peer.
  warp.for_lanes(check.num_ranks, [&](std::uint32_t peer) {
    gin.put(Team::world, peer, buffer, free + kGinPut + slot, buffer, free + slot, 8, Ring::now);
  });
  const std::uint32_t next = (check.self + 1) % check.num_ranks;
  warp.once([&] {
    expect(gin.flush(deadline));
    for (std::uint32_t i = 0; i < kGinValues; ++i) {
      gin.put_value(Team::world, next, buffer, free + kGinRow + i * 8, i + 1, Ring::later);
    }
    gin.signal(Team::world, next, row, 1);
    expect(gin.wait_signal(row, 1, deadline));
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < kGinValues; ++i) {
      sum += *reinterpret_cast<volatile std::uint64_t*>(
          gin.local_pointer(buffer, free + kGinRow + i * 8));
    }
    check.result[1] = sum;
    expect(gin.flush(deadline));
  });
}

__global__ void __launch_bounds__(256) row_writer_kernel(const __grid_constant__ RowWriter writer) {
  const kernels::CudaWarp warp(nullptr);
  const std::uint32_t lane = threadIdx.x % core::kWarpLanes;
  const std::uint32_t index = threadIdx.x / core::kWarpLanes, warps = blockDim.x / core::kWarpLanes;
  for (std::uint64_t pass = 0; pass < writer.passes; ++pass) {
    if (writer.stop != nullptr && *static_cast<const volatile std::uint32_t*>(writer.stop) != 0) {
      return;
    }
    const std::uint64_t version = 2 * (writer.first_pass + pass) + 2;
    for (std::uint64_t r = index; r < writer.num_rows; r += warps) {
      volatile std::uint64_t& count = writer.versions[r];
      if (lane == 0) count = version - 1;
      warp.fence();
      auto* const words =
          reinterpret_cast<volatile std::uint32_t*>(writer.rows + r * writer.row_words * 4);
      for (std::uint32_t w = lane; w < writer.row_words; w += core::kWarpLanes) {
        words[w] = row_word(writer.first_row + r, version, w);
      }
      warp.fence();
      if (lane == 0) count = version;
      warp.fence();
    }
  }
}

Result<void> launched(const char* name) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return fail(ErrorCode::internal, "launching ", name, ": ", cudaGetErrorString(error));
}

}  // namespace

Result<void> launch_gin_check(const GinCheck& check, cudaStream_t stream) {
  gin_check_kernel<<<1, core::kWarpLanes, 0, stream>>>(check);
  return launched("gin_check");
}

Result<void> launch_row_writer(const RowWriter& writer, cudaStream_t stream) {
  row_writer_kernel<<<1, 256, 0, stream>>>(writer);
  return launched("row_writer");
}

}  // namespace engram::test
