// One way to launch a kernel, plainly or programmatically behind the one before it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda_result.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// `shared_bytes` of dynamic shared memory a block, at most 48 KiB.
template <class... Params, class... Values>
[[nodiscard]] Result<void> launch_kernel_shared(void (*kernel)(Params...), std::uint32_t blocks,
                                                int threads, std::size_t shared_bytes,
                                                cudaStream_t stream, Launch mode, const char* name,
                                                const Values&... values) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (mode == Launch::programmatic) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  return check_cuda(cudaLaunchKernelEx(&config, kernel, Params(values)...), name);
}

template <class... Params, class... Values>
[[nodiscard]] Result<void> launch_kernel(void (*kernel)(Params...), std::uint32_t blocks,
                                         int threads, cudaStream_t stream, Launch mode,
                                         const char* name, const Values&... values) {
  return launch_kernel_shared(kernel, blocks, threads, 0, stream, mode, name, values...);
}

}  // namespace engram::kernels
