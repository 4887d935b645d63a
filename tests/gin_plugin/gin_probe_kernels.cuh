// The kernels of gin_probe: each uses NCCL's public device API and counts what is wrong.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdint>

namespace gin_probe {

constexpr uint64_t kLimitCycles = 15'000'000'000ull;  // about 8 s

/// What every byte of a rank's window holds: word i (4 bytes) of `rank`, in test `salt`.
__host__ __device__ inline uint32_t word_of(int rank, uint64_t i, uint32_t salt) {
  uint64_t x =
      i * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(rank) * 0xBF58476D1CE4E5B9ull + salt;
  x ^= x >> 31;
  x *= 0x94D049BB133111EBull;
  return static_cast<uint32_t>(x >> 32);
}

struct Report {
  unsigned long long wrong;  // words that differ
  unsigned long long timeouts;
  unsigned long long cycles;
};

__global__ void fill(uint32_t* words, uint64_t count, int rank, uint32_t salt) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    words[i] = word_of(rank, i, salt);
  }
}

/// words[i] must be word (first + i) of `rank`.
__global__ void check(const uint32_t* words, uint64_t count, int rank, uint64_t first,
                      uint32_t salt, Report* report) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    if (words[i] != word_of(rank, first + i, salt)) {
      atomicAdd_system(&report->wrong, 1ull);
    }
  }
}

__device__ void note_timeout(Report* report, ncclResult_t result) {
  if (result != ncclSuccess) atomicAdd_system(&report->timeouts, 1ull);
}

struct Row {  // one copy of a test, in bytes
  uint64_t remote, local;
  uint32_t size;
};

/// Block b serves context b and every gridDim.x-th row; its threads share them.
__global__ void get_rows(ncclDevComm comm, ncclWindow_t window, int peer, const Row* rows,
                         int count, Report* report, bool rail, int repeat) {
  ncclGin gin(comm, blockIdx.x);
  const ncclTeam team = rail ? ncclTeamRail(comm) : ncclTeamWorld(comm);
  __syncthreads();
  const long long begin = clock64();
  for (int turn = 0; turn < repeat; ++turn) {
    for (int i = blockIdx.x + gridDim.x * threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
      gin.get(team, peer, window, rows[i].remote, window, rows[i].local, rows[i].size);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      ncclGinRequest_t request;
      gin.flushAsync(team, peer, &request);
      note_timeout(report, gin.wait(request, ncclCoopThread(), ncclGin_None{},
                                    cuda::memory_order_acquire, kLimitCycles));
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) report->cycles = clock64() - begin;
}

__global__ void put_rows(ncclDevComm comm, ncclWindow_t window, int peer, const Row* rows,
                         int count, Report* report, bool rail, int signal, uint64_t expected) {
  ncclGin gin(comm, blockIdx.x);
  const ncclTeam team = rail ? ncclTeamRail(comm) : ncclTeamWorld(comm);
  for (int i = blockIdx.x + gridDim.x * threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    gin.put(team, peer, window, rows[i].remote, window, rows[i].local, rows[i].size);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    gin.signal(team, peer, ncclGin_StrongSignalInc{static_cast<ncclGinSignal_t>(signal)});
    note_timeout(report, gin.waitSignal(ncclCoopThread(), signal, expected, 64,
                                        cuda::memory_order_acquire, kLimitCycles));
    note_timeout(report, gin.flush(ncclCoopThread(), cuda::memory_order_acquire, ncclGin_None{},
                                   kLimitCycles));
  }
}

/// Every small operation, one thread, context `context`. `base` = byte offset of a scratch line in
/// the window, different for each context. Results land in the peer's scratch.
__global__ void small_ops(ncclDevComm comm, ncclWindow_t window, int self, int peer, int context,
                          uint64_t base, uint32_t turn, Report* report, bool rail) {
  ncclGin gin(comm, context);
  const ncclTeam team = rail ? ncclTeamRail(comm) : ncclTeamWorld(comm);
  const ncclCoopThread me;
  auto wait_signal = [&](int signal, uint64_t least) {
    note_timeout(report,
                 gin.waitSignal(me, signal, least, 64, cuda::memory_order_acquire, kLimitCycles));
  };
  auto expect = [&](bool right) {
    if (!right) atomicAdd_system(&report->wrong, 1ull);
  };
  char* scratch = static_cast<char*>(ncclGetLocalPointer(window, base));
  const uint64_t value = 0x1122334455667788ull + turn * 0x0101010101010101ull;
  // putValue of each size, with a strong signal on the last.
  gin.putValue(team, peer, window, base + 0, static_cast<uint8_t>(value));
  gin.putValue(team, peer, window, base + 2, static_cast<uint16_t>(value));
  gin.putValue(team, peer, window, base + 4, static_cast<uint32_t>(value));
  gin.putValue(team, peer, window, base + 8, value, ncclGin_StrongSignalAdd{1, 5});
  wait_signal(1, 5);
  expect(*reinterpret_cast<volatile uint8_t*>(scratch) == static_cast<uint8_t>(value));
  expect(*reinterpret_cast<volatile uint16_t*>(scratch + 2) == static_cast<uint16_t>(value));
  expect(*reinterpret_cast<volatile uint32_t*>(scratch + 4) == static_cast<uint32_t>(value));
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 8) == value);
  expect(gin.readSignal(1) == 5);
  // Weak signals, add and increment, with a put.
  gin.put(team, peer, window, base + 64, window, base, 16, ncclGin_WeakSignalAdd{2, 7});
  wait_signal(2, 7);
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 72) == value);
  gin.signal(team, peer, ncclGin_WeakSignalInc{3});
  gin.signal(team, peer, ncclGin_StrongSignalInc{3});
  wait_signal(3, 2);
  // VA signals on the window.
  gin.put(team, peer, window, base + 128, window, base, 16,
          ncclGin_StrongVASignalAdd{window, base + 256, 11});
  gin.signal(team, peer, ncclGin_WeakVASignalInc{window, base + 256});
  note_timeout(report, gin.waitSignal(me, window, base + 256, 12, 64, cuda::memory_order_acquire,
                                      kLimitCycles));
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 136) == value);
  expect(gin.readSignal(window, base + 256) == 12);
  // Counters: a put's source is free again once the counter tells.
  for (uint64_t round = 1; round <= 2; ++round) {
    gin.put(team, peer, window, base + 192, window, base, 16, ncclGin_None{},
            ncclGin_WeakCounterInc{1});
    gin.put(team, peer, window, base + 208, window, base, 16, ncclGin_None{},
            ncclGin_WeakCounterInc{1});
    note_timeout(report, gin.waitCounter(me, 1, 2, 56, cuda::memory_order_acquire, kLimitCycles));
    expect(gin.readCounter(1) == 2);
    gin.resetCounter(1);
    expect(gin.readCounter(1) == 0);
  }
  note_timeout(report, gin.flush(me, cuda::memory_order_acquire, ncclGin_None{}, kLimitCycles));
  // Both sides have seen all: then the signals can be set back.
  {
    ncclGinBarrierSession<ncclCoopThread> barrier(
        me, gin, team, rail ? comm.railGinBarrier : comm.worldGinBarrier, context);
    note_timeout(report,
                 barrier.sync(me, cuda::memory_order_acq_rel,
                              ncclGinFenceLevel::Put | ncclGinFenceLevel::Get, kLimitCycles));
  }
  for (int signal = 1; signal <= 3; ++signal) {
    gin.resetSignal(signal);
    expect(gin.readSignal(signal) == 0);
  }
  gin.resetSignal(window, base + 256);
  {
    ncclGinBarrierSession<ncclCoopThread> barrier(
        me, gin, team, rail ? comm.railGinBarrier : comm.worldGinBarrier, context);
    note_timeout(report,
                 barrier.sync(me, cuda::memory_order_acq_rel,
                              ncclGinFenceLevel::Put | ncclGinFenceLevel::Get, kLimitCycles));
  }
  (void)self;
}

__global__ void ping_pong(ncclDevComm comm, ncclWindow_t window, int self, int peer, uint64_t base,
                          int turns, uint64_t before, Report* report) {
  ncclGin gin(comm, 0);
  const ncclTeam team = ncclTeamWorld(comm);
  const long long begin = clock64();
  for (int turn = 1; turn <= turns; ++turn) {
    if (self == 0) {
      gin.put(team, peer, window, base + 4096, window, base, 256, ncclGin_StrongSignalInc{4});
    }
    const ncclResult_t result = gin.waitSignal(ncclCoopThread(), 4, before + turn, 64,
                                               cuda::memory_order_acquire, kLimitCycles);
    note_timeout(report, result);
    if (result != ncclSuccess) break;
    if (self != 0) {
      gin.put(team, peer, window, base + 4096, window, base, 256, ncclGin_StrongSignalInc{4});
    }
  }
  report->cycles = clock64() - begin;
}

__global__ void barriers(ncclDevComm comm, int turns, Report* report) {
  ncclGin gin(comm, 0);
  const long long begin = clock64();
  for (int i = 0; i < turns; ++i) {
    ncclGinBarrierSession<ncclCoopThread> barrier(ncclCoopThread(), gin, ncclTeamTagWorld(), 0);
    const ncclResult_t result = barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel,
                                             ncclGinFenceLevel::None, kLimitCycles);
    note_timeout(report, result);
    if (result != ncclSuccess) break;
  }
  report->cycles = clock64() - begin;
}

/// Fills the GPU with threads that wait for block 0's gets: nothing else fits beside it.
__global__ void __launch_bounds__(1024, 2)
    everyone_waits(ncclDevComm comm, ncclWindow_t window, int peer, const Row* rows, int count,
                   Report* report) {
  extern __shared__ char hog[];
  hog[threadIdx.x] = 0;
  ncclGin gin(comm, 0);
  const ncclTeam team = ncclTeamWorld(comm);
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      gin.get(team, peer, window, rows[i].remote, window, rows[i].local, rows[i].size);
    }
    __syncthreads();
  }
  ncclGinRequest_t request;
  if (threadIdx.x == 0) {
    gin.flushAsync(team, peer, &request);
    note_timeout(report, gin.wait(request, ncclCoopThread(), ncclGin_None{},
                                  cuda::memory_order_acquire, kLimitCycles));
  }
  __syncthreads();
}

__global__ void spin(volatile int* stop) {
  while (*stop == 0) {
  }
}

/// A request past the window's end, and a wait for a signal that nobody sends.
__global__ void bad_get(ncclDevComm comm, ncclWindow_t window, int peer, Report* report) {
  ncclGin gin(comm, 0);
  gin.get(ncclTeamWorld(comm), peer, window, 1ull << 50, window, 0, 256);
  ncclGinRequest_t request;
  gin.flushAsync(ncclTeamWorld(comm), peer, &request);
  note_timeout(report, gin.wait(request, ncclCoopThread(), ncclGin_None{},
                                cuda::memory_order_acquire, kLimitCycles));
  note_timeout(
      report, gin.waitSignal(ncclCoopThread(), 9, 1, 64, cuda::memory_order_acquire, kLimitCycles));
}

/// Waits for a signal that a dead peer never sends.
__global__ void wait_for_the_dead(ncclDevComm comm, int peer, Report* report) {
  ncclGin gin(comm, 0);
  note_timeout(
      report, gin.waitSignal(ncclCoopThread(), 9, 1, 64, cuda::memory_order_acquire, kLimitCycles));
  note_timeout(report, gin.flush(ncclCoopThread(), cuda::memory_order_acquire, ncclGin_None{},
                                 kLimitCycles));
  (void)peer;
}

/// Gets from a window of GPU and CPU segments, both ends mixed.
__global__ void get_mixed(ncclDevComm comm, ncclWindow_t window, int peer, uint64_t from,
                          uint64_t to, uint64_t bytes, Report* report) {
  ncclGin gin(comm, 0);
  const ncclTeam team = ncclTeamWorld(comm);
  gin.get(team, peer, window, from, window, to, bytes, ncclCoopThread(), ncclGin_None{},
          ncclGinOptFlagsDefault, ncclGin_SegmentMixed{});
  ncclGinRequest_t request;
  gin.flushAsync(team, peer, &request);
  note_timeout(report, gin.wait(request, ncclCoopThread(), ncclGin_None{},
                                cuda::memory_order_acquire, kLimitCycles));
}

}  // namespace gin_probe
