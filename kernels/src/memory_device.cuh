// Loads and stores of 4, 8 and 16 bytes in global memory, and programmatic launch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace engram::kernels {

template <int kBytes>
struct WordOf;
template <>
struct WordOf<16> {
  using type = uint4;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <int kBytes>
using Word = typename WordOf<kBytes>::type;

/// Plain cached load. The compiler cannot see that a pointer read from memory is a global one, and
/// would use the slower generic load.
template <int kBytes>
__device__ __forceinline__ Word<kBytes> load_global(const std::byte* at) {
  const auto address = __cvta_generic_to_global(at);
  Word<kBytes> v;
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
  } else {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(address));
  }
  return v;
}

/// The same where `wanted`, else zeros, without a branch: several stand in a row unhindered.
template <int kBytes>
__device__ __forceinline__ Word<kBytes> load_global_if(bool wanted, const std::byte* at) {
  const auto address = __cvta_generic_to_global(at);
  const int flag = wanted;
  Word<kBytes> v{};
  if constexpr (kBytes == 16) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(address), "r"(flag));
  } else if constexpr (kBytes == 8) {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; @p ld.global.v2.u32 {%0,%1}, [%2]; }"
                 : "+r"(v.x), "+r"(v.y)
                 : "l"(address), "r"(flag));
  } else {
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.u32 %0, [%1]; }"
                 : "+r"(v)
                 : "l"(address), "r"(flag));
  }
  return v;
}

__device__ __forceinline__ std::uint64_t load_u64(const void* at) {
  std::uint64_t v;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(__cvta_generic_to_global(at)));
  return v;
}
__device__ __forceinline__ std::uint32_t load_u32(const void* at) {
  return load_global<4>(static_cast<const std::byte*>(at));
}

template <int kBytes>
__device__ __forceinline__ void store_global(std::byte* at, Word<kBytes> v) {
  const auto address = __cvta_generic_to_global(at);
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(address), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(address), "r"(v.x), "r"(v.y) : "memory");
  } else {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
  }
}

/// Stores `v` in pieces of kStore bytes, for destinations less aligned than the source.
template <int kLoad, int kStore>
__device__ __forceinline__ void store_pieces(std::byte* at, Word<kLoad> v) {
  if constexpr (kLoad == kStore) {
    store_global<kStore>(at, v);
  } else if constexpr (kStore == 8) {
    store_global<8>(at, make_uint2(v.x, v.y));
    store_global<8>(at + 8, make_uint2(v.z, v.w));
  } else {
    store_global<4>(at, v.x);
    store_global<4>(at + 4, v.y);
    store_global<4>(at + 8, v.z);
    store_global<4>(at + 12, v.w);
  }
}

/// Where the words of kStore bytes lie that make up a lane's kLoad bytes of a chunk: `first`, and
/// on by `step`. A step of all lanes makes every instruction of a lane group cover whole sectors;
/// words side by side would leave each of them half filled.
struct WordSteps {
  int first, step;
};
template <int kLoad, int kStore>
__device__ __forceinline__ Word<kLoad> load_apart(bool wanted, const std::byte* chunk,
                                                  WordSteps at) {
  const auto word = [&](int k) {
    return load_global_if<kStore>(wanted, chunk + (at.first + k * at.step) * kStore);
  };
  if constexpr (kLoad == kStore) {
    return word(0);
  } else if constexpr (kStore == 8) {
    const uint2 a = word(0), b = word(1);
    return make_uint4(a.x, a.y, b.x, b.y);
  } else {
    return make_uint4(word(0), word(1), word(2), word(3));
  }
}
template <int kLoad, int kStore>
__device__ __forceinline__ void store_apart(std::byte* chunk, WordSteps at, Word<kLoad> v) {
  const auto word = [&](int k, Word<kStore> value) {
    store_global<kStore>(chunk + (at.first + k * at.step) * kStore, value);
  };
  if constexpr (kLoad == kStore) {
    word(0, v);
  } else if constexpr (kStore == 8) {
    word(0, make_uint2(v.x, v.y));
    word(1, make_uint2(v.z, v.w));
  } else {
    word(0, v.x);
    word(1, v.y);
    word(2, v.z);
    word(3, v.w);
  }
}

/// Lets a kernel launched programmatically behind this one be scheduled. It still sees nothing of
/// this one before its own wait_for_previous_kernel().
__device__ __forceinline__ void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;");
}
/// Returns once the kernel before this one is complete and its writes are visible; at once if
/// this one was launched plainly.
__device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace engram::kernels
