// Copies on a GPU by kernel, copy engine or a kernel of a second context; see EnginePolicy.
#pragma once

#include <atomic>
#include <memory>

#include "cuda_api.hpp"
#include "cuda_lane.hpp"
#include "engram/gin_plugin/device.hpp"

namespace engram::gin_plugin {

/// Shared by a device's engines: until when the application's context is not tried.
struct Avoidance {
  std::atomic<std::int64_t> until_ns{0};  ///< steady clock
  std::atomic<int> backoff{0};            ///< 0..6: avoid_time << backoff
};

/// make_cuda_device with a driver that is given.
[[nodiscard]] Result<std::unique_ptr<Device>> make_cuda_device(std::shared_ptr<const CudaApi> api,
                                                               const EnginePolicy& policy);

/// The application's context is current; `own` is shared by the device's engines.
[[nodiscard]] Result<std::unique_ptr<Engine>> make_cuda_engine(
    std::shared_ptr<const CudaApi> api, std::shared_ptr<OwnContext> own, const EnginePolicy& policy,
    std::shared_ptr<Avoidance> avoidance);

}  // namespace engram::gin_plugin
