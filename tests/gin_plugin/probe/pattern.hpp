// What every byte of a rank's window holds, for host and device.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define ENGRAM_PROBE_BOTH __host__ __device__
#else
#define ENGRAM_PROBE_BOTH
#endif

namespace gin_probe {

/// Word i (4 bytes) of `rank`'s window in test `salt`.
ENGRAM_PROBE_BOTH inline uint32_t word_of(int rank, uint64_t i, uint32_t salt) {
  uint64_t x =
      i * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(rank) * 0xBF58476D1CE4E5B9ull + salt;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBull;
  return static_cast<uint32_t>(x >> 32);
}

/// What is written over a target before a test: a byte that stays so was not written.
constexpr unsigned char kPoison = 0xEE;

/// Counted by kernels, in pinned memory; zeroed by each verdict.
struct Report {
  unsigned long long wrong;     ///< words or bytes that differ
  unsigned long long timeouts;  ///< waits that ended by their time-out
};

/// One copy of a test, in bytes from the window's start.
struct Row {
  uint64_t remote, local;
  uint32_t size;
};

}  // namespace gin_probe
