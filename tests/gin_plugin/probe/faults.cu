#include <signal.h>
#include <unistd.h>

#include <thread>

#include "device.cuh"
#include "tests.hpp"

namespace gin_probe {
namespace {

/// Fills the GPU with threads that wait for block 0's gets: nothing else fits beside it.
__global__ void __launch_bounds__(1024, 2)
    everyone_waits(Target target, const Row* rows, int count, Report* report) {
  extern __shared__ char hog[];
  hog[threadIdx.x] = 0;
  ncclGin gin(target.comm, 0);
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      gin.get(team_of(target), target.peer, target.window, rows[i].remote, target.window,
              rows[i].local, rows[i].size);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) flush_and_wait(gin, target, report);
  __syncthreads();
}

__global__ void spin(volatile int* stop) {
  while (*stop == 0) {
  }
}

constexpr uint64_t kWord = kScratch + (8 << 20);  ///< where the VA signals of these tests go

/// One VA signal each way, so that the plugin knows the word as one.
__global__ void signal_once(Target target, Report* report) {
  ncclGin gin(target.comm, 0);
  gin.signal(team_of(target), target.peer, ncclGin_StrongVASignalInc{target.window, kWord});
  note_timeout(report, gin.waitSignal(ncclCoopThread(), target.window, kWord, 1, 64,
                                      cuda::memory_order_acquire, kLimitCycles));
}

/// Waits for a signal and a VA signal that nobody sends, and for a flush.
__global__ void wait_for_nothing(Target target, bool bad_get, Report* report) {
  ncclGin gin(target.comm, 0);
  if (bad_get) {
    gin.get(team_of(target), target.peer, target.window, 1ull << 50, target.window, 0, 256);
    flush_and_wait(gin, target, report);
  }
  wait_signal(gin, 9, 1, report);
  note_timeout(report, gin.waitSignal(ncclCoopThread(), target.window, kWord, 2, 64,
                                      cuda::memory_order_acquire, kLimitCycles));
  note_timeout(report, gin.flush(ncclCoopThread(), cuda::memory_order_acquire, ncclGin_None{},
                                 kLimitCycles));
}

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void expect_error(Session& s, const char* name, double took) {
  const ncclResult_t told = s.async_error();
  if (told == ncclSuccess) ++s.report()->wrong;
  s.verdict(name, ",\"ms\":" + std::to_string(took) + ",\"async\":" + std::to_string(told));
}

void prepare(Session& s) {
  s.make_dev_comm(1, false);
  must(cudaMemset(s.data() + kWord, 0, 64), "word");
  s.barrier();
  signal_once<<<1, 1, 0, s.stream()>>>(s.target(false), s.report());
  s.barrier();
}

}  // namespace

void crowd(Session& s) {
  s.make_dev_comm(1, false);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 512; ++i) rows.push_back({i * 256ull, kTarget + i * 512ull, 256});
  const DeviceRows device(rows);
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  auto poison = [&] {
    must(cudaMemset(s.data() + kTarget, kPoison, 1 << 20), "poison");
    s.barrier();
  };
  auto look = [&] {
    check_rows(s.data(), device.data(), device.count(), false, s.after(false), s.report(),
               s.stream());
  };
  for (int turn = 0; turn < 3; ++turn) {
    poison();
    const double t = s.ms([&] {
      everyone_waits<<<2 * sms, 1024, 1024, s.stream()>>>(s.target(false), device.data(),
                                                          device.count(), s.report());
    });
    look();
    s.verdict("every_sm_waits", ",\"ms\":" + std::to_string(t));
  }
  // 24 streams behind a kernel that spins, then a kernel that gets.
  int* stop = nullptr;
  must(cudaMallocHost(&stop, sizeof(int)), "stop");
  *stop = 0;
  poison();
  std::vector<cudaStream_t> streams(24);
  for (auto& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  get_rows(s.target(false), device.data(), device.count(), 1, 32, 1, s.report(), streams[0]);
  spin<<<1, 1, 0, streams[1]>>>(stop);
  for (auto& stream : streams) fill(s.words(kScratch + (32 << 20)), 1, 0, 0, stream);
  const auto begin = std::chrono::steady_clock::now();
  const cudaError_t first = cudaStreamSynchronize(streams[0]);
  const double took = since(begin);
  *stop = 1;
  must(first, "24 streams");
  look();
  s.verdict("24_streams", ",\"ms\":" + std::to_string(took));
  for (auto& stream : streams) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  cudaFreeHost(stop);
}

void errors(Session& s) {
  prepare(s);
  const auto begin = std::chrono::steady_clock::now();
  wait_for_nothing<<<1, 1, 0, s.stream()>>>(s.target(false), true, s.report());
  must(cudaStreamSynchronize(s.stream()), "bad get");
  expect_error(s, "bad_get_ends", since(begin));
}

void killed(Session& s) {
  constexpr auto kUntilDeath = std::chrono::milliseconds(300);
  prepare(s);
  if (s.rank() != 0) {
    std::this_thread::sleep_for(kUntilDeath);
    kill(getpid(), SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  wait_for_nothing<<<1, 1, 0, s.stream()>>>(s.target(false), false, s.report());
  must(cudaStreamSynchronize(s.stream()), "wait for the dead");
  expect_error(s, "killed_peer_is_told", since(begin));
  std::_Exit(s.failures() == 0 ? 0 : 1);
}

}  // namespace gin_probe
