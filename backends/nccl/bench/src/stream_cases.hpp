// One rank's table and the fetches that are timed on it.
#pragma once

#include <optional>
#include <string>

#include "engram/bench/bench_stream.hpp"
#include "engram/core/engram_table.hpp"
#include "world.hpp"

namespace engram::bench {

inline constexpr int kStreamRow = 256;
inline constexpr std::int64_t kStreamDefaultRows = 12'288, kStreamManyRows = 1 << 20;

/// A table of rows of 256 B whose words are known by their place, opened and filled.
class StreamTable {
 public:
  /// Collective. Throws engram::Error, as everything here.
  StreamTable(nccl::NcclTransport& transport, const BenchStreamOptions& options,
              core::Placement placement, std::uint64_t rows_each);

  [[nodiscard]] std::int64_t rows_each() const { return static_cast<std::int64_t>(rows_each_); }
  /// Time and bytes of `setup`'s fetch of `indices`, a graph or queued; appended to the report.
  struct How {
    std::string name;
    bool graph = false;
    std::optional<double> share{};  ///< told to the planner
    std::shared_ptr<kernels::HostAssist> assist{};
    bool scales = false;
    std::string limit{};
    double limit_us = 0, most_us = 0;
  };
  double time_fetch(const IndexSets& indices, const How& how);
  /// A fetch in flight beside computation.
  void time_overlap(const IndexSets& indices);
  /// Rows read through versions, held against `plain_us`.
  void time_versions(const IndexSets& indices, double plain_us);

  BenchFetchReport report;

 private:
  [[nodiscard]] nccl::StreamFetchSetup setup_for(std::int64_t count, std::uint32_t sms) const;
  [[nodiscard]] std::uint64_t count_wrong(const IndexSets& indices, nccl::StreamFetch& fetch);
  double add(Measurement about, const Times& times);

  nccl::NcclTransport& transport_;
  const BenchStreamOptions& options_;
  core::Placement placement_;
  std::uint64_t rows_each_;
  core::TableLayout layout_;
  core::WindowLayout window_;
  core::Router router_;
  nccl::DeviceHandles handles_;
  int num_sms_ = 132;
  Clock clock_;
};

}  // namespace engram::bench
