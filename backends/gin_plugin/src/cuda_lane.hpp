// One CUDA context's streams and kernels, as an engine uses them.
#pragma once

#include <memory>

#include "../kernels/engine_kernels.cuh"
#include "cuda_api.hpp"

namespace engram::gin_plugin {

/// A context, the two kernels loaded in it and one stream for them.
class CudaLane {
 public:
  /// In the application's context, `context` current. Launches both kernels once, so that no later
  /// launch loads code, which may wait for other kernels.
  [[nodiscard]] static Result<std::unique_ptr<CudaLane>> in_context(
      std::shared_ptr<const CudaApi> api, CUcontext context, std::size_t slots, bool owned);
  /// In a context of its own, which is current during this call only.
  [[nodiscard]] static Result<std::unique_ptr<CudaLane>> in_new_context(
      std::shared_ptr<const CudaApi> api, std::size_t slots);
  ~CudaLane();

  /// Runs driver calls with this lane's context current; the application's is already.
  template <class Work>
  CUresult inside(Work work) const {
    if (!owned_) return work();
    api_->ctx_push_current(context_);
    const CUresult result = work();
    CUcontext popped = nullptr;
    api_->ctx_pop_current(&popped);
    return result;
  }

  /// Starts the copy kernel (or the add kernel) on `count` list entries; never waits.
  [[nodiscard]] Result<void> launch(bool adds, const void* list, std::size_t count,
                                    BatchControl* control, std::size_t slot, std::uint64_t id);

 private:
  CudaLane() = default;

  std::shared_ptr<const CudaApi> api_;
  CUcontext context_ = nullptr;
  bool owned_ = false;
  CUmodule module_ = nullptr;
  CUfunction copy_ = nullptr;
  CUfunction add_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr tallies_ = 0;  ///< [slots] BatchTally
};

}  // namespace engram::gin_plugin
