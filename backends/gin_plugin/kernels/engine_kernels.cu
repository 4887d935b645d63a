// Copies and atomic adds of one batch. Started by the plugin's engine, see src/cuda_engine.cpp.
#include "engine_kernels.cuh"

namespace engram::gin_plugin {
namespace {

struct Half {  // half a Copy: lane 2i holds {src, dst}, lane 2i + 1 {size, reserved, value}
  std::uint64_t first, second;
};

__device__ std::uint64_t shuffle(std::uint64_t value, unsigned lane) {
  return __shfl_sync(~0u, value, lane);
}

__device__ bool begin_block(BatchControl* control) {
  __shared__ bool held_back;
  if (threadIdx.x == 0) {
    *const_cast<volatile std::uint32_t*>(&control->started) = 1;
    asm volatile("fence.sc.sys;" ::: "memory");
    held_back = *const_cast<volatile std::uint32_t*>(&control->revoked) != 0;
  }
  __syncthreads();
  return !held_back;
}

/// Precondition: called by all threads of the block, after their stores.
__device__ void end_block(BatchControl* control, BatchTally* tally, std::uint64_t id, bool ran) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (!ran) atomicAdd(&tally->blocks_held_back, 1u);
  __threadfence();
  if (atomicAdd(&tally->blocks_done, 1u) + 1 != gridDim.x) return;
  __threadfence();
  const bool held_back = atomicExch(&tally->blocks_held_back, 0u) != 0;
  atomicExch(&tally->blocks_done, 0u);
  __threadfence_system();
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&control->kernel_done),
               "l"(2 * id + (held_back ? 1 : 0))
               : "memory");
}

/// 16 bytes from any address, out of the five aligned words that hold them.
__device__ uint4 load_unaligned(const char* src) {
  const auto at = reinterpret_cast<std::uintptr_t>(src);
  const auto* words = reinterpret_cast<const std::uint32_t*>(at & ~std::uintptr_t{3});
  const unsigned shift = 8 * (at & 3);
  const std::uint32_t a = words[0], b = words[1], c = words[2], d = words[3];
  const std::uint32_t e = shift != 0 ? words[4] : 0;  // else it may lie past the memory's end
  return {__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift), __funnelshift_r(c, d, shift),
          __funnelshift_r(d, e, shift)};
}

/// One copy by a whole warp, any size and alignment. Stores are 16 bytes wide but for the ends.
__device__ void copy_by_warp(const char* src, char* dst, std::uint32_t size, unsigned lane) {
  const auto to_boundary =
      static_cast<std::uint32_t>(-reinterpret_cast<std::uintptr_t>(dst) & std::uintptr_t{15});
  const std::uint32_t head = to_boundary < size ? to_boundary : size;
  const std::uint32_t whole = (size - head) / 16;
  const char* from = src + head;
  auto* to = reinterpret_cast<uint4*>(dst + head);
  if (lane < head) dst[lane] = src[lane];
  std::uint32_t i = lane;
  if ((reinterpret_cast<std::uintptr_t>(from) & 15) == 0) {
    const auto* aligned = reinterpret_cast<const uint4*>(from);
    for (; i + 96 < whole; i += 128) {
      const uint4 a = aligned[i], b = aligned[i + 32], c = aligned[i + 64], d = aligned[i + 96];
      to[i] = a, to[i + 32] = b, to[i + 64] = c, to[i + 96] = d;
    }
    for (; i < whole; i += 32) to[i] = aligned[i];
  } else {
    for (; i + 32 < whole; i += 64) {
      const uint4 a = load_unaligned(from + 16 * i), b = load_unaligned(from + 16 * (i + 32));
      to[i] = a, to[i + 32] = b;
    }
    for (; i < whole; i += 32) to[i] = load_unaligned(from + 16 * i);
  }
  const std::uint32_t done = head + 16 * whole;  // fewer than 16 bytes are left
  if (done + lane < size) dst[done + lane] = src[done + lane];
}

__device__ void store_value(char* dst, std::uint64_t value, std::uint32_t size) {
  if (size == 8 && (reinterpret_cast<std::uintptr_t>(dst) & 7) == 0) {
    *reinterpret_cast<std::uint64_t*>(dst) = value;
  } else if (size == 4 && (reinterpret_cast<std::uintptr_t>(dst) & 3) == 0) {
    *reinterpret_cast<std::uint32_t*>(dst) = static_cast<std::uint32_t>(value);
  } else {
    for (std::uint32_t i = 0; i < size; ++i) dst[i] = static_cast<char>(value >> (8 * i));
  }
}

/// 16 copies by one warp. Rows of at most 256 bytes, aligned to 16, go two at a time with all
/// loads before the first store; the rest follows one by one.
__device__ void copy_group(const Half* halves, unsigned copies, unsigned lane) {
  Half mine{0, 0};
  if (lane < 2 * copies) mine = halves[lane];
  const unsigned part = lane & 15, row = lane >> 4;
  uint4 data[kCopiesPerWarp / 2];
  unsigned other = 0;  // bit per copy that does not fit the quick way
#pragma unroll
  for (unsigned step = 0; step < kCopiesPerWarp / 2; ++step) {
    const unsigned i = 2 * step + row;
    const std::uint64_t src = shuffle(mine.first, 2 * i);
    const std::uint64_t dst = shuffle(mine.second, 2 * i);
    const auto size = static_cast<std::uint32_t>(shuffle(mine.first, 2 * i + 1));
    const bool quick = src != 0 && size <= 256 && ((src | dst | size) & 15) == 0;
    if (quick && part * 16 < size) data[step] = reinterpret_cast<const uint4*>(src)[part];
    const unsigned slow = __ballot_sync(~0u, !quick && i < copies);
    other |= ((slow & 1u) | (slow >> 16 & 1u) << 1) << (2 * step);
  }
#pragma unroll
  for (unsigned step = 0; step < kCopiesPerWarp / 2; ++step) {
    const unsigned i = 2 * step + row;
    const std::uint64_t dst = shuffle(mine.second, 2 * i);
    const auto size = static_cast<std::uint32_t>(shuffle(mine.first, 2 * i + 1));
    if (i < copies && (other >> i & 1) == 0 && part * 16 < size) {
      reinterpret_cast<uint4*>(dst)[part] = data[step];
    }
  }
  while (other != 0) {
    const unsigned i = __ffs(static_cast<int>(other)) - 1;
    other &= other - 1;
    const auto* src = reinterpret_cast<const char*>(shuffle(mine.first, 2 * i));
    auto* dst = reinterpret_cast<char*>(shuffle(mine.second, 2 * i));
    const auto size = static_cast<std::uint32_t>(shuffle(mine.first, 2 * i + 1));
    const std::uint64_t value = shuffle(mine.second, 2 * i + 1);
    if (src != nullptr) {
      copy_by_warp(src, dst, size, lane);
    } else if (lane == 0) {
      store_value(dst, value, size);
    }
  }
}

}  // namespace
}  // namespace engram::gin_plugin

using engram::gin_plugin::BatchControl;
using engram::gin_plugin::BatchTally;

extern "C" __global__ void __launch_bounds__(engram::gin_plugin::kCopyThreads)
    engram_gin_copy(const void* copies, unsigned count, BatchControl* control, BatchTally* tally,
                    std::uint64_t id) {
  using namespace engram::gin_plugin;
  const bool run = begin_block(control);
  if (run) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned warps = gridDim.x * (kCopyThreads / 32);
    const unsigned warp = blockIdx.x * (kCopyThreads / 32) + threadIdx.x / 32;
    for (unsigned first = warp * kCopiesPerWarp; first < count; first += warps * kCopiesPerWarp) {
      const unsigned left = count - first;
      copy_group(static_cast<const Half*>(copies) + 2 * first,
                 left < kCopiesPerWarp ? left : kCopiesPerWarp, lane);
    }
  }
  end_block(control, tally, id, run);
}

/// One block, so that either all adds are done or none.
extern "C" __global__ void engram_gin_add(const void* adds, unsigned count, BatchControl* control,
                                          BatchTally* tally, std::uint64_t id) {
  using namespace engram::gin_plugin;
  struct alignas(32) Add {
    unsigned long long* dst;
    unsigned long long value;
  };
  const bool run = begin_block(control);
  if (run) {
    const auto* list = static_cast<const Add*>(adds);
    __threadfence_system();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
      atomicAdd_system(list[i].dst, list[i].value);
    }
  }
  end_block(control, tally, id, run);
}
