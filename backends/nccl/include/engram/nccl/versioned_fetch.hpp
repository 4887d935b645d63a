// Rows that change while they are read, on a GPU: core's versioned protocol in one kernel.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl_device/core.h>
#include <nccl_device/host.h>

#include <cstdint>
#include <memory>

#include "engram/core/row_version.hpp"
#include "engram/kernels/error_record.hpp"
#include "engram/nccl/stream_fetch.hpp"

namespace engram::nccl {

/// One layer with the layer of its versions (core/row_version.hpp); fixed for a VersionedFetch's
/// life.
struct VersionedFetchSetup {
  core::Router router;  ///< its layers are copied
  LayerIndex rows{0}, versions{1};
  std::uint64_t num_reads = 0;
  /// In the buffer window: rows [num_reads, row], versions before and after [num_reads, 8].
  std::uint64_t rows_base = 0, before_base = 0, after_base = 0;
  std::uint32_t blocks = 16;         ///< that read; with a network one a QP, at most its QPs
  std::uint32_t max_attempts = 256;  ///< a row is read again that often before it is given up
};

/// A read takes three round trips and holds its SMs for all of them; rows that no one changes are
/// cheaper by StreamFetch.
class VersionedFetch {
 public:
  /// Errors: invalid_argument naming the number that does not fit; unsupported for own rows through
  /// the network; internal with CUDA's words.
  [[nodiscard]] static Result<VersionedFetch> create(const Communicator& communicator,
                                                     const FetchWindows& windows,
                                                     const VersionedFetchSetup& setup);
  VersionedFetch(VersionedFetch&&) noexcept;
  VersionedFetch& operator=(VersionedFetch&&) noexcept;
  ~VersionedFetch();

  /// Work after it on `stream` has every row whole, in one version; -1 and rows that kept changing
  /// are zeros. `indices`: device, [num_reads], valid ones. Capturable. `limit`: of each round.
  [[nodiscard]] Result<void> read(const std::int64_t* indices, cudaStream_t stream,
                                  Nanos limit = std::chrono::seconds(10));
  /// Once the stream has passed the read: what went wrong since the last call. Errors: timed_out
  /// naming the read, its version and the attempts for a row that kept changing, or peer and QP for
  /// a wait; peer_lost.
  [[nodiscard]] Result<void> check();
  /// Rows read another time so far; waits for the device.
  [[nodiscard]] Result<std::uint64_t> count_again() const;

 private:
  class Impl;
  explicit VersionedFetch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What the kernel takes; every pointer is device memory.
struct VersionedReadArgs {
  ncclDevComm_t comm{};
  ncclWindow_t storage = nullptr, buffer = nullptr;
  bool host_segments = false;
  core::VersionedReads reads;
  Rank self;
  std::uint32_t blocks = 1, batch = 1, max_attempts = 1;
  std::uint64_t limit_cycles = 0;
  kernels::ErrorSink error;
  unsigned long long* again = nullptr;
};
inline constexpr std::uint32_t kVersionedWarps = 16;  ///< of a block

[[nodiscard]] Result<void> launch_versioned_reads(const VersionedReadArgs& args,
                                                  cudaStream_t stream);

}  // namespace engram::nccl
