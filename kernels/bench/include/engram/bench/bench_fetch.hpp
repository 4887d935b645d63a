// How fast fetches over direct paths are, beside the limit measured in the same run.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::bench {

struct Measurement;

struct BenchFetchOptions {
  int device = 0;
  int peer = 1;                       ///< its rows are read over NVLink; -1: no peer cases
  Bytes gpu_table{4 * kGiB.count};    ///< on each GPU
  Bytes host_table{16 * kGiB.count};  ///< 0: no host cases
  int repeats = 20;                   ///< timed launches of each case
  int assist_threads = 24;            ///< 0: no host-assisted case
  std::uint64_t seed = 1;             ///< of all indices
  std::function<void(const Measurement&)> on_measurement;  ///< told of each as it ends
  std::string only{};  ///< run groups whose name contains this; empty: all
};

/// One case: times are of one fetch.
struct Measurement {
  std::string group{};  ///< "peer", "own", "host", "default", ...
  std::string name{};
  std::string how{};  ///< "queued": events around a launch in a full queue; "graph": one of 64
                      ///< in a graph; "wall": host call to return of the synchronize
  std::int64_t rows = 0;
  int row_bytes = 0;
  double min_us = 0, median_us = 0, max_us = 0;
  std::optional<std::uint64_t> wrong_bytes{};  ///< unset: a limit, nothing to compare
  std::string limit{};                         ///< what it is held against, or empty
  double limit_us = 0;                         ///< time of that for the same payload
  std::string target{};                        ///< what the ratio has to be, or empty
  bool met = true;                             ///< target reached; true without one

  [[nodiscard]] double gigabytes_per_second() const {
    return static_cast<double>(rows) * row_bytes / median_us / 1e3;
  }
  [[nodiscard]] double million_rows_per_second() const {
    return static_cast<double>(rows) / median_us;
  }
};

struct BenchFetchReport {
  std::vector<Measurement> measurements;
  std::vector<std::string> skipped;
  nlohmann::json machine;
};
/// Runs every group the machine has paths for; a group it has not is named in `skipped`.
/// Errors: not_found without a GPU; internal with CUDA's text; wrong_bytes never: counted instead.
[[nodiscard]] Result<BenchFetchReport> bench_fetch(const BenchFetchOptions& options);

/// The groups that `only` chooses from, with commas between.
[[nodiscard]] std::string group_names();

[[nodiscard]] nlohmann::json to_json(const BenchFetchReport& report);
/// A table for people: its head, and a line a measurement.
[[nodiscard]] std::string table_head();
[[nodiscard]] std::string to_line(const Measurement& measurement);

}  // namespace engram::bench
