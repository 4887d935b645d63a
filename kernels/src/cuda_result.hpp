// CUDA's return codes as Results.
#pragma once

#include <cuda_runtime_api.h>

#include "engram/core/result.hpp"

namespace engram::kernels {

template <class... Parts>
[[nodiscard]] Result<void> check_cuda(cudaError_t code, const Parts&... what) {
  if (code == cudaSuccess) return {};
  return within(Error{ErrorCode::internal, cudaGetErrorString(code)}, what...);
}

}  // namespace engram::kernels
