// CUDA's return codes as Results, and its memory, streams and events as owned values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "engram/core/result.hpp"

namespace engram::nccl {

template <class... Parts>
[[nodiscard]] Result<void> check_cuda(cudaError_t code, const Parts&... what) {
  if (code == cudaSuccess) return {};
  return within(Error{ErrorCode::internal, cudaGetErrorString(code)}, what...);
}

struct FreeCuda {
  void operator()(std::byte* memory) const { cudaFree(memory); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using DeviceBytes = std::unique_ptr<std::byte, FreeCuda>;
using OwnedStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, FreeCuda>;
using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, FreeCuda>;

/// Null for 0 bytes. Errors: internal, with CUDA's text.
[[nodiscard]] inline Result<DeviceBytes> make_device_bytes(std::size_t size) {
  if (size == 0) return DeviceBytes{};
  void* memory = nullptr;
  if (auto made = check_cuda(cudaMalloc(&memory, size), size, " B of GPU memory"); !made) {
    return tl::unexpected(made.error());
  }
  return DeviceBytes(static_cast<std::byte*>(memory));
}
/// Ordered with no other stream.
[[nodiscard]] inline Result<OwnedStream> make_stream() {
  cudaStream_t stream = nullptr;
  if (auto made = check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
      !made) {
    return tl::unexpected(made.error());
  }
  return OwnedStream(stream);
}
/// For order alone; it takes no time.
[[nodiscard]] inline Result<OwnedEvent> make_event() {
  cudaEvent_t event = nullptr;
  if (auto made = check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
      !made) {
    return tl::unexpected(made.error());
  }
  return OwnedEvent(event);
}

}  // namespace engram::nccl
