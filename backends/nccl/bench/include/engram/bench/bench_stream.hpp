// Fetches as an engine makes them, through nccl::StreamFetch: overlap with computation, what the
// planner gains on host rows and on rows that repeat, scales beside rows, rows read by versions.
#pragma once

#include <functional>
#include <vector>

#include "engram/bench/bench_fetch.hpp"
#include "engram/nccl/nccl_backend.hpp"

namespace engram::bench {

struct BenchStreamOptions {
  std::vector<int> devices{0, 1};  ///< one rank each, threads of this process; the first measures
  nccl::NcclOptions nccl;
  Bytes host_table{2 * kGiB.count};  ///< of the cases of one rank; 0: none
  int repeats = 20;
  int assist_threads = 24;
  std::uint64_t seed = 1;
  std::function<void(const Measurement&)> on_measurement;
};

/// Groups "stream" (two ranks: NVLink, or the network where the ranks are in two NVLink domains)
/// and "stream host" (one rank). A group that the machine has not is named in `skipped`. Errors:
/// those of make_nccl_local and of the fetches; internal with CUDA's text.
[[nodiscard]] Result<BenchFetchReport> bench_stream(const BenchStreamOptions& options);

}  // namespace engram::bench
