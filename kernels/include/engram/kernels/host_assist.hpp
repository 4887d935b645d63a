// Small fetches from a host table too large for the GPU's translations: host threads gather the
// rows into pinned staging, the GPU copies them from there. 12,288 rows of 256 B over 16 GiB:
// 114-145 us, against 277-389 us by direct reads (2x H200, November 2026).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "engram/core/units.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

struct HostAssistOptions {
  int threads = 16;           ///< they spin while idle, then yield; 16 or more reach 42 GB/s
  std::int64_t max_rows = 0;  ///< of one fetch
  int max_row_bytes = 0;      ///< with its tail
  Nanos limit{std::chrono::seconds(1)};  ///< a fetch's wait for the threads
};

/// Serves the current device. One fetch at a time: launches on one stream, or ordered by events.
/// After a wait past its limit (an ErrorRecord, kind wait_timed_out) the object is to be dropped.
class HostAssist {
 public:
  /// Errors: invalid_argument for counts below 1; internal with CUDA's text.
  [[nodiscard]] static Result<std::unique_ptr<HostAssist>> create(const HostAssistOptions& options);
  ~HostAssist();
  HostAssist(const HostAssist&) = delete;
  HostAssist& operator=(const HostAssist&) = delete;

  /// Two kernels: one hands indices to the threads, one copies rows as they come. `args.owners`
  /// and `args.tail.owners` hold addresses the *host* reads, inline; null = served elsewhere, as
  /// in gather_rows; `order` and `tickets` are not used. Stream-ordered and capturable; the
  /// threads must be alive at each replay.
  /// Errors: invalid_argument naming the size past what create() was given.
  [[nodiscard]] Result<void> launch(const GatherRowsArgs& args, cudaStream_t stream);
  [[nodiscard]] const HostAssistOptions& options() const;

 private:
  struct Impl;
  explicit HostAssist(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::kernels
