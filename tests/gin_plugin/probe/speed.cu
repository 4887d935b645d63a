#include <algorithm>

#include "device.cuh"
#include "tests.hpp"

namespace gin_probe {
namespace {

__global__ void ping_pong(Target target, int self, uint64_t base, int turns, uint64_t before,
                          Report* report) {
  ncclGin gin(target.comm, 0);
  const ncclTeam team = ncclTeamWorld(target.comm);
  for (int turn = 1; turn <= turns; ++turn) {
    if (self == 0) {
      gin.put(team, target.peer, target.window, base + 4096, target.window, base, 256,
              ncclGin_StrongSignalInc{4});
    }
    const ncclResult_t result = gin.waitSignal(ncclCoopThread(), 4, before + turn, 64,
                                               cuda::memory_order_acquire, kLimitCycles);
    note_timeout(report, result);
    if (result != ncclSuccess) break;
    if (self != 0) {
      gin.put(team, target.peer, target.window, base + 4096, target.window, base, 256,
              ncclGin_StrongSignalInc{4});
    }
  }
}

__global__ void barriers(ncclDevComm comm, int turns, Report* report) {
  ncclGin gin(comm, 0);
  for (int i = 0; i < turns; ++i) {
    ncclGinBarrierSession<ncclCoopThread> barrier(ncclCoopThread(), gin, ncclTeamTagWorld(), 0);
    const ncclResult_t result = barrier.sync(ncclCoopThread(), cuda::memory_order_acq_rel,
                                             ncclGinFenceLevel::None, kLimitCycles);
    note_timeout(report, result);
    if (result != ncclSuccess) break;
  }
}

constexpr int kTimings = 7;

/// Milliseconds of one turn of get_rows(), the median of kTimings launches of `repeat` turns.
double get_ms(Session& s, const std::vector<Row>& rows, int contexts, int threads, int repeat) {
  const DeviceRows device(rows);
  auto launch = [&](int turns) {
    get_rows(s.target(false), device.data(), device.count(), contexts, threads, turns, s.report(),
             s.stream());
  };
  s.barrier();
  launch(1);
  must(cudaStreamSynchronize(s.stream()), "warm up");
  s.barrier();
  std::vector<double> times;
  for (int i = 0; i < kTimings; ++i) times.push_back(s.ms([&] { launch(repeat); }));
  std::sort(times.begin(), times.end());
  return times[kTimings / 2] / repeat;
}

/// What a get of that size could reach: CUDA's own copy between the two GPUs.
void peer_copy(Session& s) {
  constexpr size_t kBytes = 128 << 20;
  constexpr int kCopies = 5;
  char* here = nullptr;
  void* there = nullptr;
  must(cudaMalloc(&here, kBytes), "peer copy");
  if (ncclGetLsaDevicePointer(s.target(false).window, 0, s.after(false), &there) == ncclSuccess &&
      there != nullptr) {
    std::vector<double> times;
    for (int i = 0; i < kTimings; ++i) {
      times.push_back(s.ms([&] {
        for (int k = 0; k < kCopies; ++k) {
          cudaMemcpyAsync(here, there, kBytes, cudaMemcpyDeviceToDevice, s.stream());
        }
      }));
    }
    std::sort(times.begin(), times.end());
    s.say("{\"measure\":\"peer_copy_128MiB_GBps\",\"value\":%.2f}",
          kBytes / (times[kTimings / 2] / kCopies) / 1e6);
  }
  cudaFree(here);
}

}  // namespace

void speed(Session& s) {
  s.make_dev_comm(8, false);
  s.say("{\"measure\":\"get256_flush_wait_us\",\"value\":%.2f}",
        get_ms(s, {{256, kTarget, 256}}, 1, 32, 200) * 1e3);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 12288; ++i) {
    rows.push_back({(i * 40503ull % 700000) * 256, kTarget + i * 256ull, 256});
  }
  for (const int threads : {1, 32, 128, 256}) {
    const double t = get_ms(s, rows, 8, threads, 20);
    s.say("{\"measure\":\"get12288x256_8ctx_%dthreads_Mps\",\"value\":%.2f,\"ms\":%.4f}", threads,
          static_cast<double>(rows.size()) / t / 1e3, t);
  }
  for (const uint32_t mib : {1u, 16u, 128u}) {
    const double t = get_ms(s, {{0, kTarget, mib << 20}}, 1, 1, 5);
    s.say("{\"measure\":\"get_%uMiB_GBps\",\"value\":%.2f,\"us\":%.1f}", mib,
          (static_cast<uint64_t>(mib) << 20) / t / 1e6, t * 1e3);
  }
  s.barrier();
  if (s.options().gpus > 1) peer_copy(s);
  s.barrier();
  uint64_t pings = 0;
  for (const int turns : {10, 500}) {
    const double t = s.ms([&] {
      ping_pong<<<1, 1, 0, s.stream()>>>(s.target(false), s.rank(), kScratch, turns, pings,
                                         s.report());
    });
    pings += turns;
    if (turns > 10) {
      s.say("{\"measure\":\"put_signal_round_trip_us\",\"value\":%.2f}", t * 1e3 / turns);
    }
  }
  s.barrier();
  for (const int turns : {10, 500}) {
    const double t =
        s.ms([&] { barriers<<<1, 1, 0, s.stream()>>>(s.target(false).comm, turns, s.report()); });
    if (turns > 10) s.say("{\"measure\":\"world_gin_barrier_us\",\"value\":%.2f}", t * 1e3 / turns);
  }
  s.verdict("speed");
}

}  // namespace gin_probe
