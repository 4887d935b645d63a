// The benchmark's groups of cases; each appends its measurements to the run's report.
#pragma once

#include "world.hpp"

namespace engram::bench {

inline constexpr std::int64_t kDefaultRows = 12'288;  // 512 tokens of 24 entries
inline constexpr std::int64_t kManyRows = 1 << 20;

/// What a measurement is held to.
struct Target {
  std::string text{};         ///< empty: none
  double least_of_limit = 0;  ///< limit's time / median
  double most_us = 0;         ///< 0: no bound
  double least_gigabytes = 0;
};

/// All a group needs.
class Run {
 public:
  explicit Run(const BenchFetchOptions& options);

  BenchFetchOptions options;
  BenchFetchReport report;
  std::unique_ptr<Reader> reader, peer_reader;
  Memory own_table, peer_table, host_table;  ///< null where there is none
  int num_sms = 0;

  [[nodiscard]] std::int64_t gpu_rows(int row_bytes) const {
    return static_cast<std::int64_t>(options.gpu_table.count) / row_bytes;
  }
  /// [own, peer]; without a peer its pointer is null.
  [[nodiscard]] TableView gpu_view(int row_bytes) const;
  [[nodiscard]] TableView host_view(int row_bytes, Bytes span) const;
  [[nodiscard]] kernels::FetchPlan gather_plan(
      const kernels::GatherRowsArgs& args, int sm_limit,
      kernels::RowPath path = kernels::RowPath::nvlink) const;

  /// Times `launcher`, which fetches rows * row_bytes, and appends it. Returns the median.
  double add(Measurement about, How how, const Launcher& launcher, const Target& target = {});
  /// The same for a fetch, its bytes checked.
  double add(Measurement about, How how, const Fetch& fetch, const Target& target = {});
  /// Appends times taken elsewhere.
  double add(Measurement about, const Times& times, const Target& target = {});
};

void run_limits(Run& run);
void run_peer(Run& run);
void run_own(Run& run);
void run_both(Run& run);
void run_mixed(Run& run);
void run_default(Run& run);
void run_split(Run& run);
void run_zipf(Run& run);
void run_scales(Run& run);
void run_overlap(Run& run);
void run_host(Run& run);
void run_host_assist(Run& run);

}  // namespace engram::bench
