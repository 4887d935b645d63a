#include "explain.hpp"

#include <algorithm>
#include <map>

#include "engram/model/lanes.hpp"
#include "engram/model/topology_text.hpp"

namespace engram::tools {
namespace {

const RankSample& slowest(const std::vector<RankSample>& ranks) {
  return *std::ranges::max_element(ranks, {}, [](const RankSample& s) { return s.end - s.start; });
}
Nanos length(const std::vector<RankSample>& ranks) {
  const RankSample& s = slowest(ranks);
  return s.end - s.start;
}

std::uint64_t reads(const RankSample& s, core::Path path) {
  return s.reads[static_cast<std::size_t>(path)];
}

model::FetchLoad load_of(const FetchSetup& setup, const FetchMeasurements& measured,
                         const RankSample& s, std::uint64_t served, std::uint32_t sms) {
  model::FetchLoad load;
  load.row = setup.table.shape(LayerIndex{0}).row;
  load.rdma_reads = reads(s, core::Path::rdma);
  load.nvlink_rows = reads(s, core::Path::nvlink);
  load.host_rows = reads(s, core::Path::host);
  load.local_rows = reads(s, core::Path::local);
  load.served_reads = served;
  // A QP to each peer of every context that has reads.
  load.qps = measured.plan.num_qps * measured.plan.num_peers;
  load.sms = sms;
  return load;
}

void fill_times(const FetchMeasurements& measured, RunResult& result) {
  std::vector<std::size_t> order(measured.samples.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return length(measured.samples[i]); });
  const auto& median = measured.samples[order[order.size() / 2]];
  result.time = {length(median), length(measured.samples[order.front()]),
                 length(measured.samples[order.back()])};
  const RankSample& slow = slowest(median);
  result.issue = slow.issued - slow.start;
  result.wait = slow.end - slow.issued;
  result.stages = {{"issue", result.issue}, {"wait", result.wait}};
  const Nanos zero = std::ranges::min(median, {}, &RankSample::start).start;
  for (std::uint32_t r = 0; r < median.size(); ++r) {
    const RankSample& s = median[r];
    result.timeline.push_back({Rank{r}, "issue", s.start - zero, s.issued - zero});
    result.timeline.push_back({Rank{r}, "wait", s.issued - zero, s.end - zero});
  }

  PathUse* const uses[] = {nullptr, &result.paths.local, &result.paths.nvlink, &result.paths.host,
                           &result.paths.rdma};
  std::uint64_t most_reads = 0;
  Bytes most_payload;
  for (const RankSample& s : median) {
    std::uint64_t all = 0;
    for (std::size_t p = 1; p < core::kNumPaths; ++p) {
      uses[p]->requests += s.reads[p];
      all += s.reads[p];
    }
    result.requests += reads(s, core::Path::rdma);
    result.doorbells += s.counts.doorbells;
    result.payload += s.payload;
    most_reads = std::max(most_reads, all);
    most_payload = std::max(most_payload, s.payload);
  }
  const double seconds = static_cast<double>(result.time.median.count()) * 1e-9;
  if (seconds > 0) {
    result.logical_rate = {static_cast<double>(most_payload.count) / seconds};
    result.message_rate = {static_cast<double>(most_reads) / seconds};
    result.wire_rate = {static_cast<double>(result.wire.count) / seconds /
                        static_cast<double>(median.size())};
  }
}

void fill_links(const Platform& platform, const core::BackendStats& stats, RunResult& result) {
  std::map<std::string, double> busy_of;
  for (const core::LinkLoad& link : stats.links) {
    result.links.push_back({link.name, link.busy, link.bytes});
    busy_of[link.name] = link.busy;
  }
  std::vector<double> busy;
  std::vector<bool> used(platform.topology.num_planes(), false);
  for (const model::Link& link : platform.topology.links()) {
    const auto found = busy_of.find(link.name);
    busy.push_back(found == busy_of.end() ? 0.0 : found->second);
    if (found != busy_of.end()) {
      used[platform.topology.vertices()[link.from.value].plane] = true;
    }
  }
  result.topology_svg = model::topology_svg(platform.topology, busy);
  for (std::uint32_t plane = 0; plane < used.size() && result.paths.rdma.requests > 0; ++plane) {
    if (!used[plane]) {
      result.warnings.push_back(fmt::format("plane {} of {} carries nothing", plane, used.size()));
    }
  }
}

/// Settings that could not matter in this run.
void warn_of_idle_settings(const Scenario& scenario, RunResult& result) {
  if (result.paths.rdma.requests > 0) return;
  for (const char* key : {"fetch.qps", "fetch.depth", "fetch.flush_depth"}) {
    if (scenario.places.contains(key)) {
      result.warnings.push_back(
          fmt::format("{} has no effect: no read takes the network", scenario.where(key)));
    }
  }
}

}  // namespace

std::vector<model::Floor> floors_of(const model::FetchLoad& load, const model::Profile& profile,
                                    core::Placement placement) {
  std::vector<model::Floor> floors = model::floors(load, profile);
  const bool host = placement == core::Placement::host;
  const Nanos launches = 2 * (profile.gpu.kernel_launch + profile.gpu.kernel_drain);
  const Nanos read = load.rdma_reads > 0
                         ? model::read_in_flight(profile, host) + profile.nic.completion_latency
                     : load.host_rows > 0   ? profile.memory.host_latency
                     : load.nvlink_rows > 0 ? profile.nvlink.load_latency
                                            : profile.memory.hbm_latency;
  if (load.rdma_reads + load.host_rows + load.nvlink_rows + load.local_rows > 0) {
    floors.push_back(
        {"latency", (load.rdma_reads > 0 ? launches : launches / 2) + read,
         fmt::format("launches {} ns + one unloaded read {} ns",
                     (load.rdma_reads > 0 ? launches : launches / 2).count(), read.count())});
  }
  std::ranges::stable_sort(floors, std::greater{}, &model::Floor::time);
  return floors;
}

void explain(const Scenario& scenario, const Platform& platform, const FetchSetup& setup,
             const FetchMeasurements& measured, const core::BackendStats& stats,
             RunResult& result) {
  result.wire = {stats.wire.count / std::max(1u, scenario.run.repeat)};
  fill_times(measured, result);
  const Bytes row = setup.table.shape(LayerIndex{0}).row;
  for (PathUse* use :
       {&result.paths.local, &result.paths.nvlink, &result.paths.host, &result.paths.rdma}) {
    use->payload = use->requests * row;
  }
  result.qps = measured.plan.num_qps;
  result.sms = measured.plan.direct_blocks;
  result.warnings = stats.warnings;
  result.faults = stats.faults;
  warn_of_idle_settings(scenario, result);
  if (scenario.run.backend != "sim") return;

  std::vector<model::Floor> worst;
  for (std::uint32_t r = 0; r < measured.samples.front().size(); ++r) {
    auto floors = floors_of(load_of(setup, measured, measured.samples.front()[r],
                                    measured.served[r], measured.plan.direct_blocks),
                            platform.profile, setup.options.placement);
    if (!floors.empty() && (worst.empty() || floors.front().time > worst.front().time)) {
      worst = std::move(floors);
    }
  }
  for (const model::Floor& floor : worst) result.floors.emplace_back(floor.name, floor.time);
  if (!worst.empty()) result.bound = worst.front().name;
  fill_links(platform, stats, result);
}

}  // namespace engram::tools
