// One CUDA context's streams and kernels, as an engine uses them.
#pragma once

#include <memory>

#include "../kernels/engine_kernels.cuh"
#include "cuda_api.hpp"

namespace engram::gin_plugin {

/// A CUDA context of the plugin's own on the current device. Its queues are not the application's,
/// so what is queued there runs whatever the application's kernels wait for.
class OwnContext {
 public:
  /// The process's one for the current device, made if none is alive: each costs some hundred MB of
  /// GPU memory, and communicators (NCCL opens several with NCCL_GIN_PROXY_NTHREADS) can share it.
  [[nodiscard]] static Result<std::shared_ptr<OwnContext>> of_device(
      std::shared_ptr<const CudaApi> api);
  ~OwnContext();
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  [[nodiscard]] CUcontext get() const { return context_; }

 private:
  OwnContext() = default;
  std::shared_ptr<const CudaApi> api_;
  CUcontext context_ = nullptr;
};

/// The two kernels loaded in a context and one stream for them.
class CudaLane {
 public:
  /// In the application's context, which is current, or in `own`. Launches both kernels once, so
  /// that no later launch loads code, which may wait for other kernels.
  [[nodiscard]] static Result<std::unique_ptr<CudaLane>> create(std::shared_ptr<const CudaApi> api,
                                                                std::shared_ptr<OwnContext> own,
                                                                std::size_t slots);
  ~CudaLane();

  /// Runs driver calls with this lane's context current.
  template <class Work>
  CUresult inside(Work work) const {
    const InContext current(*api_, context_);
    return work();
  }

  /// Starts the copy kernel (or the add kernel) on `count` list entries; never waits.
  /// Precondition: the lane's context is current.
  [[nodiscard]] Result<void> launch(bool adds, const void* list, std::size_t count,
                                    BatchControl* control, std::size_t slot, std::uint64_t id);

 private:
  CudaLane() = default;
  Result<void> set_up(std::size_t slots);

  std::shared_ptr<const CudaApi> api_;
  std::shared_ptr<OwnContext> own_;  ///< null: the application's context
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction copy_ = nullptr;
  CUfunction add_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr tallies_ = 0;  ///< [slots] BatchTally
};

}  // namespace engram::gin_plugin
