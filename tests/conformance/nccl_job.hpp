// The ranks that this process plays in the GPU tests: all of a job as threads, or one of a job of
// processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engram/core/backend.hpp"
#include "engram/nccl/nccl_backend.hpp"

namespace engram::test {

struct NcclJob {
  std::uint32_t num_ranks = 1;
  bool processes = false;    ///< else threads
  bool host_hybrid = false;  ///< NCCL_SYM_REUSE_SYSMEM_HANDLES=1: host rows in hybrid mode alone
  bool case_times = false;   ///< tells each case before it runs, and what it took
  nccl::NcclOptions options;
  std::unique_ptr<rendezvous::Rendezvous> ranks;  ///< with processes
  std::map<core::Mode, std::unique_ptr<core::Backend>> backends;

  /// One communicator a mode, made when it is first asked for; the same calls on every rank.
  [[nodiscard]] Result<core::Backend*> backend(core::Mode mode);
};

/// Set by main before any test runs.
[[nodiscard]] NcclJob& nccl_job();

}  // namespace engram::test
