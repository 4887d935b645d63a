#include "engram/bench/bench_stream.hpp"

#include "stream_cases.hpp"

namespace engram::bench {
namespace {

constexpr Nanos kMeasuring = std::chrono::seconds{120};  ///< the other ranks wait so long
constexpr std::uint64_t kGpuRows = (1 * kGiB.count) / kStreamRow;
constexpr int kSets = 8;

/// Two ranks: rows of the peer, by NVLink or through the network.
void run_pair(StreamTable& table, const BenchStreamOptions& options) {
  const int device = options.devices[0];
  const std::int64_t peer = table.rows_each();
  const auto small =
      uniform_indices(device, kStreamDefaultRows, peer, peer, options.seed, 2 * kSets);
  const auto large = uniform_indices(device, kStreamManyRows, peer, peer, options.seed, 4);
  table.time_fetch(small, {.name = "the peer's rows"});
  const double plain = table.time_fetch(small, {.name = "the peer's rows", .graph = true});
  table.time_fetch(small, {.name = "the peer's rows, scales beside them",
                           .graph = true,
                           .scales = true,
                           .limit = "rows alone",
                           .limit_us = plain});
  table.time_versions(small, plain);
  table.time_overlap(large);
  const auto zipf = zipf_indices(device, kStreamManyRows, peer, 1 << 20, options.seed, 4);
  const double each = table.time_fetch(zipf, {.name = "Zipf 1.0, planner not told"});
  table.time_fetch(zipf, {.name = "Zipf 1.0, planner told",
                          .share = zipf.distinct_share,
                          .limit = "not told",
                          .limit_us = each});
}

void run_network(StreamTable& table, const BenchStreamOptions& options) {
  const int device = options.devices[0];
  const std::int64_t peer = table.rows_each();
  const auto small = uniform_indices(device, kStreamDefaultRows, peer, peer, options.seed, kSets);
  table.time_fetch(small, {.name = "the peer's rows, network"});
  table.time_overlap(small);
}

/// One rank: rows of its host memory.
void run_host_rows(StreamTable& table, const BenchStreamOptions& options) {
  const int device = options.devices[0];
  const auto small =
      uniform_indices(device, kStreamDefaultRows, 0, table.rows_each(), options.seed, 2 * kSets);
  const double loads =
      table.time_fetch(small, {.name = "no host threads", .graph = true, .most_us = 85});
  if (options.assist_threads > 0) {
    auto assist = kernels::HostAssist::create({.threads = options.assist_threads,
                                               .max_rows = kStreamDefaultRows,
                                               .max_row_bytes = kStreamRow});
    if (!assist) throw assist.error();
    table.time_fetch(small,
                     {.name = std::to_string(options.assist_threads) + " host threads offered",
                      .graph = true,
                      .assist = std::shared_ptr(std::move(*assist)),
                      .limit = "without",
                      .limit_us = loads,
                      .most_us = 85});
  }
  for (const std::int64_t count : {kStreamDefaultRows, kStreamManyRows}) {
    const bool graph = count == kStreamDefaultRows;
    const auto zipf = zipf_indices(device, count, 0, 1 << 23, options.seed, 4);
    const double each =
        table.time_fetch(zipf, {.name = "Zipf 1.0, planner not told", .graph = graph});
    table.time_fetch(zipf, {.name = "Zipf 1.0, planner told",
                            .graph = graph,
                            .share = zipf.distinct_share,
                            .limit = "not told",
                            .limit_us = each});
  }
}

struct Job {
  std::vector<int> devices;
  core::Placement placement;
  std::uint64_t rows_each;
};

Result<void> run_job(const BenchStreamOptions& options, const Job& job, BenchFetchReport& report) {
  auto mine = options;
  mine.devices = job.devices;
  auto backend = nccl::make_nccl_local(job.devices, options.nccl);
  if (!backend) return tl::unexpected(backend.error());
  const auto ran = (*backend)->run([&](core::Transport& transport) -> Result<void> {
    try {
      auto& gpu = dynamic_cast<nccl::NcclTransport&>(transport);
      StreamTable table(gpu, mine, job.placement, job.rows_each);
      if (transport.rank().value == 0) {
        if (job.placement == core::Placement::host) {
          run_host_rows(table, mine);
        } else if (transport.grid().num_rdma > 1) {
          run_network(table, mine);
        } else {
          run_pair(table, mine);
        }
        auto& into = report.measurements;
        into.insert(into.end(), table.report.measurements.begin(), table.report.measurements.end());
      }
      return transport.barrier(kMeasuring);
    } catch (const Error& error) {
      return tl::unexpected(error);
    }
  });
  return ran ? Result<void>{} : tl::unexpected(ran.error());
}

}  // namespace

Result<BenchFetchReport> bench_stream(const BenchStreamOptions& options) {
  BenchFetchReport report;
  if (options.devices.size() > 1) {
    auto ran = run_job(options, {options.devices, core::Placement::gpu, kGpuRows}, report);
    if (!ran) return tl::unexpected(ran.error());
  } else {
    report.skipped.push_back("stream: one GPU has no peer");
  }
  if (options.host_table.count > 0 && !options.devices.empty()) {
    auto ran = run_job(
        options,
        {{options.devices[0]}, core::Placement::host, options.host_table.count / kStreamRow},
        report);
    if (!ran) return tl::unexpected(ran.error());
  } else {
    report.skipped.push_back("stream host: no host table asked for");
  }
  return report;
}

}  // namespace engram::bench
