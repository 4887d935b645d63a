// Kernels of the self-test: fill memory with a pattern, and count bytes that differ from one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace engram::nccl::selftest {

/// Word `i` of the pattern of (`rank`, `piece`); any two differ in most words.
__host__ __device__ inline std::uint64_t pattern(std::uint32_t rank, std::uint32_t piece,
                                                 std::uint64_t i) {
  std::uint64_t x = i + (std::uint64_t{rank} + 1) * 0x9e3779b97f4a7c15u +
                    (std::uint64_t{piece} + 1) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// `words` 8-byte words at `at`, device-reachable.
cudaError_t fill(void* at, std::uint64_t words, std::uint32_t rank, std::uint32_t piece,
                 cudaStream_t stream);
/// Adds the number of wrong words to `*wrong` (device).
cudaError_t count_wrong(const void* at, std::uint64_t words, std::uint32_t rank,
                        std::uint32_t piece, unsigned long long* wrong, cudaStream_t stream);
/// A plain store, to a peer perhaps: only a barrier orders it.
cudaError_t store(std::uint32_t* at, std::uint32_t value, cudaStream_t stream);
/// `*bad += (*at != expected)` (device).
cudaError_t expect(const std::uint32_t* at, std::uint32_t expected, unsigned long long* bad,
                   cudaStream_t stream);

}  // namespace engram::nccl::selftest
