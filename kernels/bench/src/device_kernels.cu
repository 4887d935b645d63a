#include "device_kernels.hpp"

#include <algorithm>

namespace engram::bench {
namespace {

__host__ __device__ std::uint32_t word_at(std::uint64_t word) {
  word *= 0x9e37'79b9'7f4a'7c15ull;
  word ^= word >> 29;
  word *= 0xbf58'476d'1ce4'e5b9ull;
  return static_cast<std::uint32_t>(word >> 32);
}

__global__ void fill_kernel(std::uint32_t* table, std::uint64_t words, std::uint64_t first_word) {
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t w = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       w < words; w += stride) {
    table[w] = word_at(first_word + w);
  }
}

__global__ void count_wrong_kernel(const __grid_constant__ kernels::GatherRowsArgs args,
                                   const __grid_constant__ ExpectedWords expected,
                                   unsigned long long* wrong) {
  const std::uint64_t row_words = args.row_bytes / 4, tail_words = args.tail.row_bytes / 4;
  const std::uint64_t words = row_words + tail_words;
  const std::uint64_t total = args.num_rows() * words;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  unsigned long long bytes = 0;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < total; i += stride) {
    const std::uint64_t position = i / words, w = i % words;
    const auto& layer = args.layers[position / args.rows_per_layer()];
    const std::int64_t index = args.indices[position];
    std::uint32_t right = 0;
    if (index >= 0 && index < layer.num_rows) {
      const std::uint64_t owner = index / layer.entries_per_owner.divisor;
      const std::uint64_t local = index % layer.entries_per_owner.divisor;
      const std::uint64_t tail_row = args.tail.replicated ? index : local;
      right =
          w < row_words
              ? word_at(expected.first_word[owner] + layer.base_offset / 4 + local * row_words + w)
              : word_at(expected.tail_first_word + layer.tail_offset / 4 + tail_row * tail_words +
                        (w - row_words));
    }
    const std::uint32_t got = reinterpret_cast<const std::uint32_t*>(args.fetched)[i];
    for (int b = 0; b < 32; b += 8) bytes += ((got >> b) & 255) != ((right >> b) & 255);
  }
  if (bytes > 0) atomicAdd(wrong, bytes);
}

__global__ void __launch_bounds__(256)
    contiguous_kernel(const uint4* from, uint4* to, std::uint64_t vectors) {
  const std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < vectors) to[i] = from[i];
}

__global__ void __launch_bounds__(1024, 1)
    contiguous_few_kernel(const uint4* from, uint4* to, std::uint64_t vectors) {
  constexpr int kOpen = 8;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x * kOpen;
  std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x * kOpen + threadIdx.x;
  for (; at < vectors; at += stride) {
    uint4 v[kOpen];
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      if (at + u * 1024 < vectors) v[u] = from[at + u * 1024];
    }
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      if (at + u * 1024 < vectors) to[at + u * 1024] = v[u];
    }
  }
}

__global__ void gate_kernel(const std::uint32_t* flag) {
  constexpr std::uint64_t kLimit = 10'000'000'000ull;
  std::uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*static_cast<const volatile std::uint32_t*>(flag) == 0 && now - begin < kLimit);
}

__global__ void __launch_bounds__(512) compute_kernel(int rounds, float* sink) {
  float x = static_cast<float>(threadIdx.x), y = 1.0f, z = 2.0f, w = 3.0f;
  for (int r = 0; r < rounds; ++r) {
    x = fmaf(x, 0.999f, 1.0f);
    y = fmaf(y, 0.998f, 1.0f);
    z = fmaf(z, 0.997f, 1.0f);
    w = fmaf(w, 0.996f, 1.0f);
  }
  if (x + y + z + w == 0.12345f) *sink = x;
}

Result<void> launched(const char* name) {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return {};
  return fail(ErrorCode::internal, name, ": ", cudaGetErrorString(code));
}

constexpr int kManyBlocks = 132 * 16;

}  // namespace

Result<void> launch_fill(std::uint32_t* table, std::uint64_t words, std::uint64_t first_word,
                         cudaStream_t stream) {
  fill_kernel<<<kManyBlocks, 256, 0, stream>>>(table, words, first_word);
  return launched("fill");
}

Result<void> launch_count_wrong(const kernels::GatherRowsArgs& args, const ExpectedWords& expected,
                                unsigned long long* wrong, cudaStream_t stream) {
  count_wrong_kernel<<<kManyBlocks, 256, 0, stream>>>(args, expected, wrong);
  return launched("count_wrong");
}

Result<void> launch_contiguous(const std::byte* from, std::byte* to, std::uint64_t bytes,
                               int sm_limit, cudaStream_t stream) {
  const std::uint64_t vectors = bytes / 16;
  const auto* const src = reinterpret_cast<const uint4*>(from);
  auto* const dst = reinterpret_cast<uint4*>(to);
  if (sm_limit > 0) {
    contiguous_few_kernel<<<sm_limit, 1024, 0, stream>>>(src, dst, vectors);
  } else {
    contiguous_kernel<<<static_cast<unsigned>((vectors + 255) / 256), 256, 0, stream>>>(src, dst,
                                                                                        vectors);
  }
  return launched("contiguous");
}

Result<void> launch_gate(const std::uint32_t* flag, cudaStream_t stream) {
  gate_kernel<<<1, 1, 0, stream>>>(flag);
  return launched("gate");
}

Result<void> launch_compute(int blocks, int rounds, float* sink, cudaStream_t stream) {
  compute_kernel<<<blocks, 512, 0, stream>>>(rounds, sink);
  return launched("compute");
}

}  // namespace engram::bench
