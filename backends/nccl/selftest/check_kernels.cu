#include "check_kernels.hpp"

namespace engram::nccl::selftest {
namespace {

__global__ void fill_kernel(std::uint64_t* at, std::uint64_t words, std::uint32_t rank,
                            std::uint32_t piece) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += step) {
    at[i] = pattern(rank, piece, i);
  }
}

__global__ void count_kernel(const std::uint64_t* at, std::uint64_t words, std::uint32_t rank,
                             std::uint32_t piece, unsigned long long* wrong) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += step) {
    mine += at[i] != pattern(rank, piece, i);
  }
  if (mine != 0) atomicAdd(wrong, mine);
}

__global__ void store_kernel(std::uint32_t* at, std::uint32_t value) { *at = value; }

__global__ void expect_kernel(const std::uint32_t* at, std::uint32_t expected,
                              unsigned long long* bad) {
  if (*at != expected) *bad += 1;
}

constexpr unsigned kBlocks = 264, kThreads = 256;

}  // namespace

cudaError_t fill(void* at, std::uint64_t words, std::uint32_t rank, std::uint32_t piece,
                 cudaStream_t stream) {
  fill_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<std::uint64_t*>(at), words, rank,
                                                piece);
  return cudaGetLastError();
}

cudaError_t count_wrong(const void* at, std::uint64_t words, std::uint32_t rank,
                        std::uint32_t piece, unsigned long long* wrong, cudaStream_t stream) {
  count_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const std::uint64_t*>(at), words, rank,
                                                 piece, wrong);
  return cudaGetLastError();
}

cudaError_t store(std::uint32_t* at, std::uint32_t value, cudaStream_t stream) {
  store_kernel<<<1, 1, 0, stream>>>(at, value);
  return cudaGetLastError();
}

cudaError_t expect(const std::uint32_t* at, std::uint32_t expected, unsigned long long* bad,
                   cudaStream_t stream) {
  expect_kernel<<<1, 1, 0, stream>>>(at, expected, bad);
  return cudaGetLastError();
}

}  // namespace engram::nccl::selftest
