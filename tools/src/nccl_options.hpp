// From a scenario and the environment to the nccl backend's options.
#pragma once

#include "backend_table.hpp"
#include "engram/nccl/doctor.hpp"
#include "engram/nccl/library.hpp"

namespace engram::tools {

/// NCCL_* and CUDA_* of the process's environment.
[[nodiscard]] nccl::Environment nccl_variables(const HostOptions& host);
[[nodiscard]] nccl::LibraryOptions nccl_library(const HostOptions& host);

/// One rank of a job where a launcher started several; else all of the scenario's ranks as threads
/// of this process, one a GPU. Errors: invalid_argument where the job has another number of ranks;
/// those of make_nccl.
[[nodiscard]] Result<MadeBackend> make_nccl_backend(const Scenario& scenario,
                                                    const Platform& platform);

}  // namespace engram::tools
