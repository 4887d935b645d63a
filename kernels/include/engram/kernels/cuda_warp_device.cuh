// A warp of a GPU as core's protocols see one: a thread a lane.
#pragma once

#include <cuda/atomic>

#include <cstdint>

#include "engram/core/gin.hpp"

namespace engram::kernels {

/// Satisfies core::WarpGroup. Every statement is made by all 32 lanes together; each ends with the
/// lanes converged and their writes to scratch seen by one another.
class CudaWarp {
 public:
  static constexpr std::uint32_t kScratchWords = 2 * core::kWarpLanes;

  /// `scratch`: kScratchWords of this warp alone, in shared memory.
  __device__ explicit CudaWarp(std::uint64_t* scratch)
      : scratch_(scratch), lane_(threadIdx.x % core::kWarpLanes) {}

  template <class Body>
  __device__ void for_lanes(std::uint32_t count, Body&& body) const {
    if (lane_ < count) body(lane_);
    __syncwarp();
  }
  template <class Body>
  __device__ void once(Body&& body) const {
    if (lane_ == 0) body();
    __syncwarp();
  }
  template <class Pred>
  [[nodiscard]] __device__ std::uint32_t ballot(std::uint32_t count, Pred&& pred) const {
    const bool mine = lane_ < count && pred(lane_);
    return __ballot_sync(0xffffffffu, mine);
  }
  [[nodiscard]] __device__ std::uint64_t* scratch() const { return scratch_; }

  __device__ void copy(std::byte* dst, const std::byte* src, std::uint64_t bytes) const {
    const auto both =
        reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
    if (both % 16 == 0) {
      copy_as<uint4>(dst, src, bytes);
    } else if (both % 4 == 0) {
      copy_as<std::uint32_t>(dst, src, bytes);
    } else {
      copy_as<std::uint8_t>(dst, src, bytes);
    }
    __syncwarp();
  }
  __device__ void zero(std::byte* dst, std::uint64_t bytes) const {
    for (std::uint64_t i = lane_; i < bytes; i += core::kWarpLanes) dst[i] = std::byte{0};
    __syncwarp();
  }

  __device__ void copy_fresh(std::byte* dst, const std::byte* src, std::uint64_t bytes) const {
    const auto both =
        reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes;
    if (both % 16 == 0) {
      for (std::uint64_t at = 16 * lane_; at < bytes; at += 16 * core::kWarpLanes) {
        uint4 v;
        asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(__cvta_generic_to_global(src + at))
                     : "memory");
        *reinterpret_cast<uint4*>(dst + at) = v;
      }
    } else {
      for (std::uint64_t at = 4 * lane_; at < bytes; at += 4 * core::kWarpLanes) {
        *reinterpret_cast<std::uint32_t*>(dst + at) =
            *reinterpret_cast<const volatile std::uint32_t*>(src + at);
      }
    }
    __syncwarp();
  }
  __device__ void copy_word(std::byte* dst, const std::byte* src) const {
    *reinterpret_cast<std::uint64_t*>(dst) = *reinterpret_cast<const volatile std::uint64_t*>(src);
  }
  __device__ void fence() const {
    // Twice: what another lane read before the meeting must not pass what this one reads after it.
    __threadfence_system();
    __syncwarp();
    __threadfence_system();
  }

  __device__ void add_release(std::int32_t* word, std::int32_t add) const {
    SystemWord(*word).fetch_add(add, cuda::memory_order_release);
  }
  [[nodiscard]] __device__ std::int32_t load_word(std::int32_t* word) const {
    return SystemWord(*word).load(cuda::memory_order_relaxed);
  }
  [[nodiscard]] __device__ core::WaitStatus wait_word(std::int32_t* word, std::int32_t goal,
                                                      core::Deadline deadline) const {
    const auto begin = static_cast<std::uint64_t>(clock64());
    while (SystemWord(*word).load(cuda::memory_order_acquire) != goal) {
      if (static_cast<std::uint64_t>(clock64()) - begin >= deadline.ticks) {
        return core::WaitStatus::timed_out;
      }
    }
    return core::WaitStatus::ok;
  }

 private:
  using SystemWord = cuda::atomic_ref<std::int32_t, cuda::thread_scope_system>;

  template <class Word>
  __device__ void copy_as(std::byte* dst, const std::byte* src, std::uint64_t bytes) const {
    auto* const to = reinterpret_cast<Word*>(dst);
    const auto* const from = reinterpret_cast<const Word*>(src);
    for (std::uint64_t i = lane_; i < bytes / sizeof(Word); i += core::kWarpLanes) to[i] = from[i];
  }

  std::uint64_t* scratch_;
  std::uint32_t lane_;
};

}  // namespace engram::kernels
