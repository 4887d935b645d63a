// The network half of a fetch on a GPU: core's protocol, launched.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl_device/core.h>
#include <nccl_device/host.h>

#include "engram/core/fetch_protocol.hpp"
#include "engram/kernels/error_record.hpp"

namespace engram::nccl {

/// Warps of a block at most: with more, a thread of the issue kernel has too few registers.
inline constexpr std::uint32_t kMaxFetchWarps = 16;

/// What issue and wait share; every pointer is device memory.
struct NetworkFetchArgs {
  ncclDevComm_t comm{};
  ncclWindow_t storage = nullptr, buffer = nullptr;
  bool host_segments = false;  ///< the storage window is made of host memory
  core::IndexReads reads;      ///< its router's layers too
  core::FetchPlan plan;
  Rank self;
  core::UnitTicket<ncclGinRequest_t>* tickets = nullptr;  ///< [layers, num_qps, units_per_qp]
  kernels::ErrorSink error;

  [[nodiscard]] std::uint64_t num_tickets() const {
    return std::uint64_t{reads.num_layers()} * plan.num_qps * plan.units_per_qp();
  }
};

/// Posts all reads: one block a QP. Stream-ordered and capturable; the SMs are free when it ends.
/// Errors: invalid_argument when the plan's warps or QPs do not fit the GPU or the communicator.
[[nodiscard]] Result<void> launch_issue_reads(const NetworkFetchArgs& args, cudaStream_t stream);

/// Ends once all reads of `layer` have landed, or once `limit_cycles` of the GPU's clock have
/// passed: then `args.error` holds rank, peer, QP and what is missing.
[[nodiscard]] Result<void> launch_wait_reads(const NetworkFetchArgs& args, LayerIndex layer,
                                             std::uint64_t limit_cycles, cudaStream_t stream);

}  // namespace engram::nccl
