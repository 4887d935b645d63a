// One way to launch a kernel, plainly or programmatically behind the one before it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda_result.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// How a kernel stands on its stream.
struct Placement {
  cudaStream_t stream = nullptr;
  Launch mode = Launch::plain;
  std::size_t shared_bytes = 0;   ///< dynamic, a block, at most 48 KiB
  cudaEvent_t started = nullptr;  ///< recorded once all blocks have begun; may be null
};

template <class... Params, class... Values>
[[nodiscard]] Result<void> launch_kernel(void (*kernel)(Params...), std::uint32_t blocks,
                                         int threads, const Placement& placement, const char* name,
                                         const Values&... values) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = placement.shared_bytes;
  config.stream = placement.stream;
  cudaLaunchAttribute attributes[2] = {};
  if (placement.mode == Launch::programmatic) {
    auto& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (placement.started != nullptr) {
    auto& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeLaunchCompletionEvent;
    attribute.val.launchCompletionEvent.event = placement.started;
  }
  config.attrs = attributes;
  return check_cuda(cudaLaunchKernelEx(&config, kernel, Params(values)...), name);
}

}  // namespace engram::kernels
