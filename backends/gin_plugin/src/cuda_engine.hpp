// Copies on a GPU by kernel, copy engine or a kernel of a second context; see EnginePolicy.
#pragma once

#include <atomic>
#include <memory>

#include "cuda_api.hpp"
#include "engram/gin_plugin/device.hpp"

namespace engram::gin_plugin {

/// Shared by a device's engines: until when the application's context is not tried.
struct Avoidance {
  std::atomic<std::int64_t> until_ns{0};  ///< steady clock
  std::atomic<int> backoff{0};            ///< 0..6: avoid_time << backoff
};

[[nodiscard]] Result<std::unique_ptr<Engine>> make_cuda_engine(
    std::shared_ptr<const CudaApi> api, CUcontext app_context, const EnginePolicy& policy,
    std::shared_ptr<Avoidance> avoidance);

}  // namespace engram::gin_plugin
