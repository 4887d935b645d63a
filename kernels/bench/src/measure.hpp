// Timing of stream work: queued, as graph nodes, or by the host's clock.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "device_kernels.hpp"

namespace engram::bench {

/// Throws engram::Error: a benchmark cannot go on; bench_fetch() makes a Result of it.
void must(cudaError_t code, const char* what);
void must(const Result<void>& done);

struct Times {
  double min_us = 0, median_us = 0, max_us = 0;
};
[[nodiscard]] Times summarize(std::vector<double> samples);

/// Enqueues the `round`-th fetch on `stream`.
using Launcher = std::function<void(int round, cudaStream_t stream)>;

/// A device's stream with its gate and events.
class Clock {
 public:
  explicit Clock(int device);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int device() const { return device_; }

  /// Events around each of `repeats` launches, all enqueued before the first starts. An empty
  /// kernel reads about 4.4 us.
  [[nodiscard]] Times queued(int repeats, const Launcher& launch);
  /// One launch of a graph of 64; `repeats` replays after two to warm up.
  [[nodiscard]] Times graph(int repeats, const Launcher& launch);
  /// Host call to return of the synchronize, the GPU idle before.
  [[nodiscard]] Times wall(int repeats, const Launcher& launch);

  /// The halves of queued(), to run several devices at once: arm all, open the gates, collect.
  void arm(int repeats, const Launcher& launch);
  void open_gate() { *gate_ = 1; }
  [[nodiscard]] Times collect();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* gate_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::size_t armed_ = 0;
};

}  // namespace engram::bench
