// What the NVLink barrier's kernel and its host side share; plain data, for nvcc as well.
#pragma once

#include <cuda_runtime.h>
#include <nccl_device/core.h>

#include <cstdint>

namespace engram::nccl {

/// Ranks of one NVLink domain; the largest sold joins 72 GPUs, 576 are announced.
inline constexpr std::uint32_t kMaxLsaRanks = 1024;

/// Lies in every rank's window at the same offset; all zero at first.
struct LsaBarrierState {
  std::int32_t words[2];  ///< bit 0 of the epoch picks one, bit 1 the sign of the add
  std::uint32_t epoch;    ///< barriers this rank has passed; only its own kernel writes
  std::uint32_t unused;
  std::uint32_t arrived[kMaxLsaRanks];  ///< by sender: epochs entered; names who is missing
};

/// Written by the kernel to mapped host memory when its deadline passes; then it returns.
struct LsaBarrierError {
  std::uint32_t set = 0;    ///< 1 once the rest is whole; the first one stays
  std::uint32_t epoch = 0;  ///< of the barrier that failed
  std::int32_t seen = 0, expected = 0;
  std::uint32_t missing[kMaxLsaRanks / 32] = {};  ///< bit i: position i of the domain was not seen
};

struct LsaBarrierArgs {
  ncclWindow_t window;
  std::uint64_t state_offset;  ///< of LsaBarrierState in the window
  std::uint32_t self, num_ranks;
  std::uint64_t limit_ns;
  LsaBarrierError* error;  ///< device address of mapped host memory
};

/// Enqueues the kernel: one block. Capturable in a graph: the epoch is kept on the device.
cudaError_t launch_lsa_barrier(const LsaBarrierArgs& args, cudaStream_t stream);

}  // namespace engram::nccl
