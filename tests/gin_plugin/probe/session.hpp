// One rank of the probe: its communicator, its window and its verdicts.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "rows.hpp"

namespace gin_probe {

struct Options {
  int ranks = 2;
  int gpus = 2;
  std::string id_file = "/tmp/gin_probe.id";
  std::string run = "ops,speed";
  int seconds = 60;
  unsigned seed = 1;
  int hosts = 1;    ///< > 1: NCCL is told that so many hosts share the ranks
  int rounds = 20;  ///< of churn
};

/// Ends the process with what went wrong.
void must(cudaError_t result, const char* what);
void must(ncclResult_t result, const char* what);

// The window: what others read, where data lands, words for single operations.
constexpr size_t kWindowBytes = 512ull << 20;
constexpr uint64_t kSource = 0, kSourceBytes = 192ull << 20;
constexpr uint64_t kTarget = 192ull << 20;
constexpr uint64_t kScratch = 448ull << 20;
constexpr int kSignals = 16, kCounters = 4;

/// What a process holds, to see whether it grows.
struct Holdings {
  long resident_kb = 0;  ///< VmRSS
  long gpu_used_kb = 0;  ///< of this process; of the whole device where NVML is silent
  int files = 0, threads = 0;
  /// `"resident_kb":..,"gpu_used_kb":..,"files":..,"threads":..`
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] Holdings holdings();

class Session {
 public:
  Session(const Options& options, int rank);

  /// The communicator and the window, whose source is filled. Again after disconnect().
  void connect();
  void disconnect();
  void make_dev_comm(int contexts, bool rail);
  /// All ranks have come here and all earlier work of stream() is done.
  void barrier();
  /// Agrees on the least of all ranks' values.
  float least(float value);

  /// Prints and counts; zeroes the report.
  void verdict(const std::string& name, const std::string& extra = "");
  [[nodiscard]] int failures() const { return failures_; }
  template <class... Args>
  void say(const char* format, Args... args) {
    if (rank_ != 0) return;
    std::printf(format, args...);
    std::printf("\n");
    std::fflush(stdout);
  }
  /// Milliseconds of stream() that `work` takes.
  double ms(const std::function<void()>& work);

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rail_ranks() const { return rail_size_; }
  /// The world rank whose data a get fetches, and the one whose puts arrive here.
  [[nodiscard]] int after(bool rail) const;
  [[nodiscard]] int before(bool rail) const;
  [[nodiscard]] Target target(bool rail) const;
  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] uint32_t* words(uint64_t byte) const {
    return reinterpret_cast<uint32_t*>(data_ + byte);
  }
  [[nodiscard]] Report* report() const { return report_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] ncclResult_t async_error() const;
  /// What signal 0 of every context will be after one more put_rows().
  [[nodiscard]] uint64_t next_signal() { return ++signals_sent_; }

 private:
  ncclUniqueId trade_id();

  Options options_;
  int rank_;
  int connections_ = 0;
  ncclComm_t comm_ = nullptr;
  ncclDevComm dev_{};
  bool have_dev_ = false;
  char* data_ = nullptr;
  ncclWindow_t window_ = nullptr;
  Report* report_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* one_ = nullptr;
  int failures_ = 0;
  int rail_rank_ = 0, rail_size_ = 1;
  uint64_t signals_sent_ = 0;
};

/// Rows in device memory.
class DeviceRows {
 public:
  explicit DeviceRows(const std::vector<Row>& rows);
  ~DeviceRows();
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;
  [[nodiscard]] const Row* data() const { return data_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  Row* data_ = nullptr;
  int count_ = 0;
};

}  // namespace gin_probe
