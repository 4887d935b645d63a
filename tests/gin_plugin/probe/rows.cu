#include "device.cuh"

namespace gin_probe {
namespace {

__global__ void fill_kernel(uint32_t* words, uint64_t count, int rank, uint32_t salt) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    words[i] = word_of(rank, i, salt);
  }
}

__global__ void check_kernel(const uint32_t* words, uint64_t count, int rank, uint64_t first,
                             uint32_t salt, Report* report) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += uint64_t{gridDim.x} * blockDim.x) {
    if (words[i] != word_of(rank, first + i, salt)) {
      atomicAdd_system(&report->wrong, 1ull);
    }
  }
}

__device__ unsigned char byte_of(int rank, uint64_t at) {
  return static_cast<unsigned char>(word_of(rank, at / 4, 0) >> (8 * (at % 4)));
}

__global__ void check_rows_kernel(const char* window, const Row* rows, int count, bool put,
                                  int rank, Report* report) {
  for (int r = blockIdx.x; r < count; r += gridDim.x) {
    const uint64_t to = put ? rows[r].remote : rows[r].local;
    const uint64_t from = put ? rows[r].local : rows[r].remote;
    for (uint32_t i = threadIdx.x; i < rows[r].size + kGuardBytes; i += blockDim.x) {
      const unsigned char expected = i < rows[r].size ? byte_of(rank, from + i) : kPoison;
      if (static_cast<unsigned char>(window[to + i]) != expected) {
        atomicAdd_system(&report->wrong, 1ull);
      }
    }
  }
}

__global__ void get_rows_kernel(Target target, const Row* rows, int count, int repeat,
                                Report* report) {
  ncclGin gin(target.comm, blockIdx.x);
  const ncclTeam team = team_of(target);
  __syncthreads();
  for (int turn = 0; turn < repeat; ++turn) {
    for (int i = blockIdx.x + gridDim.x * threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
      gin.get(team, target.peer, target.window, rows[i].remote, target.window, rows[i].local,
              rows[i].size);
    }
    __syncthreads();
    if (threadIdx.x == 0) flush_and_wait(gin, target, report);
    __syncthreads();
  }
}

__global__ void put_rows_kernel(Target target, const Row* rows, int count, int signal,
                                uint64_t expected, Report* report) {
  ncclGin gin(target.comm, blockIdx.x);
  const ncclTeam team = team_of(target);
  for (int i = blockIdx.x + gridDim.x * threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    gin.put(team, target.peer, target.window, rows[i].remote, target.window, rows[i].local,
            rows[i].size);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    gin.signal(team, target.peer, ncclGin_StrongSignalInc{static_cast<ncclGinSignal_t>(signal)});
    wait_signal(gin, signal, expected, report);
    note_timeout(report, gin.flush(ncclCoopThread(), cuda::memory_order_acquire, ncclGin_None{},
                                   kLimitCycles));
  }
}

}  // namespace

void fill(uint32_t* words, uint64_t count, int rank, uint32_t salt, cudaStream_t stream) {
  fill_kernel<<<1024, 256, 0, stream>>>(words, count, rank, salt);
}

void check(const uint32_t* words, uint64_t count, int rank, uint64_t first, uint32_t salt,
           Report* report, cudaStream_t stream) {
  check_kernel<<<8, 256, 0, stream>>>(words, count, rank, first, salt, report);
}

void check_rows(const char* window, const Row* rows, int count, bool put, int rank, Report* report,
                cudaStream_t stream) {
  check_rows_kernel<<<count, 256, 0, stream>>>(window, rows, count, put, rank, report);
}

void get_rows(const Target& target, const Row* rows, int count, int contexts, int threads,
              int repeat, Report* report, cudaStream_t stream) {
  get_rows_kernel<<<contexts, threads, 0, stream>>>(target, rows, count, repeat, report);
}

void put_rows(const Target& target, const Row* rows, int count, int contexts, int threads,
              int signal, uint64_t expected, Report* report, cudaStream_t stream) {
  put_rows_kernel<<<contexts, threads, 0, stream>>>(target, rows, count, signal, expected, report);
}

}  // namespace gin_probe
