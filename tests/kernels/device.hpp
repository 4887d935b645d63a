// Memory and skips for tests on GPUs.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace engram::kernels::testing {

/// Why there is no GPU to test on; empty if there is one.
[[nodiscard]] std::string no_gpu_reason();
/// The second GPU when it and GPU 0 can read each other's memory, else -1.
[[nodiscard]] int peer_device();
/// Throws with CUDA's text: a property must fail, not go on.
void must(cudaError_t code);

enum class Place { own, peer, host };

/// Memory that a kernel on GPU 0 can read.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, Place place = Place::own);
  void write(const void* from, std::size_t bytes);
  [[nodiscard]] std::vector<std::byte> read() const;
  [[nodiscard]] std::byte* get() const { return memory_.get(); }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

/// Skips a test, saying why.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace engram::kernels::testing
