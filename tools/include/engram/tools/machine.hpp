// What commands ask of this machine: its ranks, its GPUs, its figures. The product's side is in
// src/machine.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/tools/environment.hpp"

namespace engram::tools {

/// Starts `argv` as `num_ranks` processes of this machine and returns what the job ended with: 0,
/// or the status of the first rank that failed; `explain` is told why.
/// Errors: not_found where argv[0] is no program; io.
[[nodiscard]] Result<int> launch_job(std::uint32_t num_ranks, const std::vector<std::string>& argv,
                                     const Environment& environment,
                                     const std::function<void(std::string_view)>& explain);

struct MachineReport {
  std::string text, json;
  bool usable = false;  ///< GPUs can be a backend here
};
/// Errors: unsupported in a build without the nccl backend.
[[nodiscard]] Result<MachineReport> examine_machine(const Environment& environment);

struct BenchRequest {
  int device = 0, peer = 1;  ///< peer -1: no rows over NVLink
  double host_gib = 16;      ///< host table; 0: no host rows
  int repeats = 20;
  int assist_threads = 24;  ///< that gather host rows; 0: none
  std::string only;         ///< groups whose name contains this; empty: all
};
struct BenchOutcome {
  std::string json;
  std::uint64_t wrong_bytes = 0;
  std::vector<std::string> skipped;
};
/// Tells `line` the head of the table, then a line a measurement as it ends.
/// Errors: unsupported in a build without CUDA or on a machine without a GPU; internal.
[[nodiscard]] Result<BenchOutcome> bench_fetch(const BenchRequest& request,
                                               const Environment& environment,
                                               const std::function<void(std::string_view)>& line);

}  // namespace engram::tools
