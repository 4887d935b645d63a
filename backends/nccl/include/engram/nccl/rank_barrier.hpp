// The barrier of all ranks on a GPU: core's two barriers in one kernel.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl_device/core.h>
#include <nccl_device/host.h>

#include <cstdint>

#include "engram/core/barrier_protocol.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/kernels/error_record.hpp"

namespace engram::nccl {

/// Ranks of one NVLink domain; the largest sold joins 72 GPUs, 576 are announced.
inline constexpr std::uint32_t kMaxDomainRanks = 1024;
/// Where each rank of the domain notes, in every peer's workspace, how many barriers it entered
/// ([kMaxDomainRanks] 32-bit words): a barrier that fails so names a rank that is missing.
inline constexpr Bytes kArrivalOffset{1024};
inline constexpr Bytes kBarrierStateBytes{kArrivalOffset.count + kMaxDomainRanks * 4};

/// The workspace at the start of `buffer`, kBarrierStateBytes of it, must be zero before the first
/// barrier of any rank.
struct RankBarrierArgs {
  ncclDevComm_t comm{};
  ncclWindow_t buffer = nullptr;
  bool network = false;  ///< signals through the network to the ranks of `team`
  core::Team team = core::Team::world;
  bool words = false;              ///< then words to the ranks of this NVLink domain
  std::uint32_t num_contexts = 0;  ///< whose operations are to be visible after it
  core::RankGrid grid;
  Rank self;
  std::uint64_t epoch = 0;  ///< barriers this rank has passed
  std::uint64_t limit_cycles = 0;
  kernels::ErrorSink error;
};

/// Stream-ordered: stores of earlier work on the stream are visible to all ranks' work that follows
/// on theirs. The epoch travels as an argument, so it is launched anew each time, not replayed.
[[nodiscard]] Result<void> launch_rank_barrier(const RankBarrierArgs& args, cudaStream_t stream);

}  // namespace engram::nccl
