// Kernels that many tests share: fill and check windows, get and put rows.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

#include "pattern.hpp"

namespace gin_probe {

/// Where a kernel's operations go.
struct Target {
  ncclDevComm comm;
  ncclWindow_t window;
  int peer;   ///< in the team
  bool rail;  ///< the rail team, else the world
};

/// words[0, count) become those of `rank`.
void fill(uint32_t* words, uint64_t count, int rank, uint32_t salt, cudaStream_t stream);

/// words[i] must be word (first + i) of `rank`.
void check(const uint32_t* words, uint64_t count, int rank, uint64_t first, uint32_t salt,
           Report* report, cudaStream_t stream);

/// Byte for byte: of each of `rows` (device, [count]) the bytes at `target` must be those of
/// `rank` at the other place, and the kGuardBytes behind them poison. `put`: the target is remote.
constexpr int kGuardBytes = 12;
void check_rows(const char* window, const Row* rows, int count, bool put, int rank, Report* report,
                cudaStream_t stream);

/// Block b serves context b and every contexts-th row; its threads share them. Then flush and wait,
/// and all again, `repeat` times.
void get_rows(const Target& target, const Row* rows, int count, int contexts, int threads,
              int repeat, Report* report, cudaStream_t stream);

/// Puts, then a strong signal on `signal` of each context; waits for the own to reach `expected`.
void put_rows(const Target& target, const Row* rows, int count, int contexts, int threads,
              int signal, uint64_t expected, Report* report, cudaStream_t stream);

}  // namespace gin_probe
