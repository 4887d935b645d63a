#include "device.hpp"

#include <algorithm>
#include <stdexcept>

namespace engram::kernels::testing {

std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) return cudaGetErrorString(code);
  return count == 0 ? "no GPU" : "";
}

int peer_device() {
  static const int peer = [] {
    int count = 0, there = 0, back = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) return -1;
    must(cudaDeviceCanAccessPeer(&there, 0, 1));
    must(cudaDeviceCanAccessPeer(&back, 1, 0));
    if (!there || !back) return -1;
    must(cudaSetDevice(1));
    must(cudaDeviceEnablePeerAccess(0, 0));
    must(cudaSetDevice(0));
    must(cudaDeviceEnablePeerAccess(1, 0));
    return 1;
  }();
  return peer;
}

void must(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

Buffer::Buffer(std::size_t bytes, Place place) : bytes_(bytes) {
  void* memory = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 16);
  if (place == Place::host) {
    must(cudaHostAlloc(&memory, size, cudaHostAllocMapped | cudaHostAllocPortable));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* m) { cudaFreeHost(m); }};
    return;
  }
  const int device = place == Place::peer ? peer_device() : 0;
  must(cudaSetDevice(device));
  must(cudaMalloc(&memory, size));
  must(cudaSetDevice(0));
  memory_ = {static_cast<std::byte*>(memory), [](std::byte* m) { cudaFree(m); }};
}

void Buffer::write(const void* from, std::size_t bytes) {
  if (bytes > bytes_) throw std::runtime_error("write past a buffer's end");
  must(cudaMemcpy(memory_.get(), from, bytes, cudaMemcpyDefault));
}

std::vector<std::byte> Buffer::read() const {
  std::vector<std::byte> bytes(bytes_);
  if (bytes_ > 0) must(cudaMemcpy(bytes.data(), memory_.get(), bytes_, cudaMemcpyDefault));
  return bytes;
}

void GpuTest::SetUp() {
  if (const auto reason = no_gpu_reason(); !reason.empty()) {
    GTEST_SKIP() << "needs a GPU: " << reason;
  }
  must(cudaSetDevice(0));
  (void)peer_device();
}

}  // namespace engram::kernels::testing
