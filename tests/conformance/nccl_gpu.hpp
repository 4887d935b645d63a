// GPU memory, streams and runs of all ranks for the GPU tests.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "conformance/nccl_job.hpp"
#include "engram/nccl/nccl_transport.hpp"

namespace engram::test {

inline constexpr Nanos kGpuLimit = std::chrono::seconds{10};

inline Result<void> cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return fail(ErrorCode::internal, what, ": ", cudaGetErrorString(code));
}

/// GPU memory of `count` values, zero, and the same values on the host.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(std::size_t count) : count_(count) {
    void* memory = nullptr;
    state_ = cuda(cudaMalloc(&memory, count * sizeof(T)), "test memory");
    if (state_) state_ = cuda(cudaMemset(memory, 0, count * sizeof(T)), "test memory");
    data_ = static_cast<T*>(memory);
  }
  ~OnGpu() { cudaFree(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  [[nodiscard]] T* get() const { return data_; }
  [[nodiscard]] const Result<void>& state() const { return state_; }
  [[nodiscard]] Result<void> put(const std::vector<T>& values) const {
    return cuda(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
                "to the GPU");
  }
  [[nodiscard]] Result<std::vector<T>> take() const {
    std::vector<T> out(count_);
    auto done = cuda(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
                     "from the GPU");
    if (!done) return tl::unexpected(done.error());
    return out;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
  Result<void> state_;
};

struct Stream {
  Stream() { cudaStreamCreateWithFlags(&value, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamDestroy(value); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] Result<void> join() const { return cuda(cudaStreamSynchronize(value), "a stream"); }
  cudaStream_t value = nullptr;
};

/// Runs `main` on every rank; the same calls everywhere.
inline void on_all(core::Mode mode, const std::function<Result<void>(nccl::NcclTransport&)>& main) {
  auto backend = nccl_job().backend(mode);
  ASSERT_TRUE(backend) << backend.error().message;
  const auto ran = (*backend)->run([&](core::Transport& transport) -> Result<void> {
    auto done = main(dynamic_cast<nccl::NcclTransport&>(transport));
    return done ? transport.barrier(kGpuLimit) : done;
  });
  EXPECT_TRUE(ran) << ran.error().message;
}

}  // namespace engram::test
