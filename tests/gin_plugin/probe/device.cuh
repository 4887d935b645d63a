// What the probe's kernels share.
#pragma once

#include "rows.hpp"

namespace gin_probe {

constexpr uint64_t kLimitCycles = 15'000'000'000ull;  // about 8 s

__device__ inline void note_timeout(Report* report, ncclResult_t result) {
  if (result != ncclSuccess) atomicAdd_system(&report->timeouts, 1ull);
}

__device__ inline ncclTeam team_of(const Target& target) {
  return target.rail ? ncclTeamRail(target.comm) : ncclTeamWorld(target.comm);
}

__device__ inline void flush_and_wait(const ncclGin& gin, const Target& target, Report* report) {
  ncclGinRequest_t request;
  gin.flushAsync(team_of(target), target.peer, &request);
  note_timeout(report, gin.wait(request, ncclCoopThread(), ncclGin_None{},
                                cuda::memory_order_acquire, kLimitCycles));
}

__device__ inline void wait_signal(const ncclGin& gin, int signal, uint64_t least, Report* report) {
  note_timeout(report, gin.waitSignal(ncclCoopThread(), signal, least, 64,
                                      cuda::memory_order_acquire, kLimitCycles));
}

}  // namespace gin_probe
