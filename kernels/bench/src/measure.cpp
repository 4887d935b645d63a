#include "measure.hpp"

#include <algorithm>
#include <chrono>

namespace engram::bench {
namespace {

constexpr int kGraphNodes = 64;
constexpr int kWarmUps = 2;

}  // namespace

void must(cudaError_t code, const char* what) {
  if (code != cudaSuccess) {
    throw Error{ErrorCode::internal, std::string(what) + ": " + cudaGetErrorString(code)};
  }
}

void must(const Result<void>& done) {
  if (!done) throw done.error();
}

Times summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples.front(), samples[samples.size() / 2], samples.back()};
}

Clock::Clock(int device) : device_(device) {
  must(cudaSetDevice(device), "device");
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  void* gate = nullptr;
  must(cudaHostAlloc(&gate, 64, cudaHostAllocMapped | cudaHostAllocPortable), "gate");
  gate_ = static_cast<std::uint32_t*>(gate);
}

Clock::~Clock() {
  cudaSetDevice(device_);
  for (auto event : events_) cudaEventDestroy(event);
  cudaFreeHost(gate_);
  cudaStreamDestroy(stream_);
}

void Clock::arm(int repeats, const Launcher& launch) {
  must(cudaSetDevice(device_), "device");
  for (int r = 0; r < kWarmUps; ++r) launch(r, stream_);
  must(cudaStreamSynchronize(stream_), "warm-up");
  armed_ = static_cast<std::size_t>(repeats);
  while (events_.size() < 2 * armed_) {
    events_.emplace_back();
    must(cudaEventCreate(&events_.back()), "event");
  }
  *static_cast<volatile std::uint32_t*>(gate_) = 0;
  must(launch_gate(gate_, stream_));
  for (std::size_t r = 0; r < armed_; ++r) {
    must(cudaEventRecord(events_[2 * r], stream_), "event");
    launch(static_cast<int>(r), stream_);
    must(cudaEventRecord(events_[2 * r + 1], stream_), "event");
  }
}

Times Clock::collect() {
  must(cudaSetDevice(device_), "device");
  must(cudaStreamSynchronize(stream_), "timed launches");
  std::vector<double> samples;
  for (std::size_t r = 0; r < armed_; ++r) {
    float ms = 0;
    must(cudaEventElapsedTime(&ms, events_[2 * r], events_[2 * r + 1]), "elapsed");
    samples.push_back(static_cast<double>(ms) * 1e3);
  }
  return summarize(std::move(samples));
}

Times Clock::queued(int repeats, const Launcher& launch) {
  arm(repeats, launch);
  open_gate();
  return collect();
}

Times Clock::graph(int repeats, const Launcher& launch) {
  must(cudaSetDevice(device_), "device");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  for (int n = 0; n < kGraphNodes; ++n) launch(n, stream_);
  must(cudaStreamEndCapture(stream_, &graph), "capture");
  must(cudaGraphInstantiate(&ready, graph, 0), "graph");
  const auto replay = [&](int, cudaStream_t stream) {
    must(cudaGraphLaunch(ready, stream), "graph launch");
  };
  Times times = queued(repeats, replay);
  must(cudaGraphExecDestroy(ready), "graph");
  must(cudaGraphDestroy(graph), "graph");
  for (double* t : {&times.min_us, &times.median_us, &times.max_us}) *t /= kGraphNodes;
  return times;
}

Times Clock::wall(int repeats, const Launcher& launch) {
  must(cudaSetDevice(device_), "device");
  std::vector<double> samples;
  for (int r = -kWarmUps; r < repeats; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    launch(r + kWarmUps, stream_);
    must(cudaStreamSynchronize(stream_), "timed launch");
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (r >= 0) samples.push_back(took.count());
  }
  return summarize(std::move(samples));
}

}  // namespace engram::bench
