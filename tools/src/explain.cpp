#include "explain.hpp"

#include <algorithm>
#include <map>

#include "engram/model/ecmp.hpp"
#include "engram/model/topology_text.hpp"
#include "fault_target.hpp"
#include "figures.hpp"
#include "idle_settings.hpp"

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
                         const RankSample& s, std::uint64_t served, std::uint64_t peers) {
  model::FetchLoad load;
  load.row = setup.table.shape(LayerIndex{0}).row;
  load.rdma_reads = reads(s, core::Path::rdma);
  load.nvlink_rows = reads(s, core::Path::nvlink);
  load.host_rows = reads(s, core::Path::host);
  load.local_rows = reads(s, core::Path::local);
  load.served_reads = served;
  // A QP of every context to each peer that has rows for this rank.
  load.qps = static_cast<std::uint32_t>(measured.plan.num_qps * peers);
  load.sms = measured.plan.direct_blocks;
  return load;
}

void fill_times(const FetchMeasurements& measured, RunResult& result) {
  std::vector<std::size_t> order;  // repeats that every rank has ended
  for (std::size_t i = 0; i < measured.samples.size(); ++i) {
    if (std::ranges::all_of(measured.samples[i], &RankSample::ended)) order.push_back(i);
  }
  result.repeats = static_cast<std::uint32_t>(order.size());
  if (order.empty()) return;
  std::ranges::sort(order, {}, [&](std::size_t i) { return length(measured.samples[i]); });
  // Stages are those of one repeat; the median of an even number lies between two.
  const auto& median = measured.samples[order[(order.size() - 1) / 2]];
  result.time = {(length(median) + length(measured.samples[order[order.size() / 2]])) / 2,
                 length(measured.samples[order.front()]), length(measured.samples[order.back()])};
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

void fill_links(const Scenario& scenario, const Platform& platform, const core::BackendStats& stats,
                RunResult& result) {
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
  model::PictureOptions picture;
  for (const Fault& fault : scenario.faults) {
    if (fault.kind != FaultKind::link_down) continue;
    const auto target = parse_target(scenario, fault);
    const auto* link = target ? std::get_if<LinkTarget>(&*target) : nullptr;
    if (link == nullptr) continue;
    for (const model::LinkIndex hit : links_of(platform.topology, *link)) {
      picture.broken.push_back(platform.topology.links()[hit.value].name);
    }
  }
  result.topology_svg = model::topology_svg(platform.topology, busy, picture);
  if (!result.failure.empty()) return;  // what had not begun yet is not idle
  for (std::uint32_t plane = 0; plane < used.size() && result.paths.rdma.requests > 0; ++plane) {
    if (!used[plane]) {
      std::string text = fmt::format("plane {} of {} carries nothing", plane, used.size());
      if (result.qps < used.size()) {
        text += fmt::format("; fetch.qps = {} a peer reach as many planes at most", result.qps);
      }
      result.warnings.push_back(std::move(text));
    }
  }
}

/// The busiest link between NICs and switches: what it carried in one repeat, at its rate. Not with
/// background, whose bytes are no floor of the fetch.
void add_network_floor(const Scenario& scenario, const Platform& platform,
                       const core::BackendStats& stats, std::vector<model::Floor>& floors) {
  if (!scenario.background.empty()) return;
  std::map<std::string_view, BytesPerSecond> rate;
  for (const model::Link& link : platform.topology.links()) rate[link.name] = link.rate;
  model::Floor worst{"network", Nanos{0}, ""};
  for (const core::LinkLoad& link : stats.links) {
    const auto found = rate.find(link.name);
    if (found == rate.end()) continue;
    const Bytes once{link.bytes.count / std::max(1u, scenario.run.repeat)};
    const Nanos time = once / found->second;
    if (time > worst.time) {
      worst = {"network", time, fmt::format("{} B over {}", once.count, link.name)};
    }
  }
  if (worst.time > Nanos{0}) floors.push_back(worst);
}

/// Links that flows share by the hash though others beside them have room.
void warn_of_collisions(const Scenario& scenario, const Platform& platform, const FetchSetup& setup,
                        const FetchMeasurements& measured, Nanos floor_without_network,
                        RunResult& result) {
  constexpr std::size_t kMostFlows = 200'000;
  const std::uint32_t qps = measured.plan.num_qps;
  if (scenario.cluster.network.routing != RoutingKind::ecmp || floor_without_network <= Nanos{0} ||
      measured.pairs.size() * qps > kMostFlows) {
    return;
  }
  const double row = static_cast<double>(setup.table.shape(LayerIndex{0}).row.count +
                                         platform.profile.nic.header_bytes);
  const double seconds = static_cast<double>(floor_without_network.count()) * 1e-9;
  const std::uint32_t planes = platform.topology.num_planes();
  std::vector<model::Flow> flows;
  for (const PeerReads& pair : measured.pairs) {
    if (pair.reader == pair.owner) continue;
    const double each = static_cast<double>(pair.reads) * row / seconds / qps;
    for (std::uint32_t q = 0; q < qps; ++q) {
      flows.push_back({pair.owner, pair.reader, QpIndex{q}, q % planes, each});
    }
  }
  const auto collisions = model::ecmp_collisions(platform.topology, flows, 0);
  for (auto& text : model::collision_warnings(platform.topology, collisions, 3)) {
    result.warnings.push_back(std::move(text));
  }
}

/// Settings that mattered and that the fidelity models only roughly.
void warn_of_fidelity(const Scenario& scenario, RunResult& result) {
  if (result.fidelity == "message" || !result.congestion || result.congestion->cuts == 0) return;
  result.warnings.push_back(fmt::format(
      "fidelity {} does not model how cluster.network.congestion_control = {} slows each QP packet "
      "by packet: its time may differ from fidelity message by half and more",
      result.fidelity, name_of(scenario.cluster.network.congestion_control)));
}

/// A run that failed tells no statistics; its faults are then those of the scenario.
void list_faults(const Scenario& scenario, const core::BackendStats& stats, RunResult& result) {
  result.faults = stats.faults;
  if (result.failure.empty() || !result.faults.empty()) return;
  for (const Fault& fault : scenario.faults) {
    result.faults.push_back(fmt::format("{} of {} at {} us", name_of(fault.kind), fault.target,
                                        static_cast<double>(fault.at.count()) * 1e-3));
  }
}

}  // namespace

std::vector<model::Floor> floors_of(const model::FetchLoad& load, const model::Profile& profile,
                                    core::Placement placement) {
  std::vector<model::Floor> floors = model::floors(load, profile);
  const bool host = placement == core::Placement::host;
  // The first launch and the last drain are always seen; what lies between may hide behind the
  // read.
  const Nanos launches = profile.gpu.kernel_launch + profile.gpu.kernel_drain;
  const Nanos read = load.rdma_reads > 0
                         ? model::read_in_flight(profile, host) + profile.nic.completion_latency
                     : load.host_rows > 0   ? profile.memory.host_latency
                     : load.nvlink_rows > 0 ? profile.nvlink.load_latency
                                            : profile.memory.hbm_latency;
  if (load.rdma_reads + load.host_rows + load.nvlink_rows + load.local_rows > 0) {
    floors.push_back({"latency", launches + read,
                      fmt::format("launch and drain {} ns + one unloaded read {} ns",
                                  launches.count(), read.count())});
  }
  std::ranges::stable_sort(floors, std::greater{}, &model::Floor::time);
  return floors;
}

void explain(const Scenario& scenario, const Platform& platform, const FetchSetup& setup,
             const FetchMeasurements& measured, const core::BackendStats& stats,
             RunResult& result) {
  if (result.failure.empty()) result.wire = {stats.wire.count / std::max(1u, scenario.run.repeat)};
  result.simulated = scenario.run.backend == "sim";
  fill_times(measured, result);
  const Bytes row = setup.table.shape(LayerIndex{0}).row;
  for (PathUse* use :
       {&result.paths.local, &result.paths.nvlink, &result.paths.host, &result.paths.rdma}) {
    use->payload = use->requests * row;
  }
  result.qps = measured.plan.num_qps;
  result.sms = measured.plan.direct_blocks;
  result.warnings = stats.warnings;
  result.warnings.insert(result.warnings.end(), platform.notes.begin(), platform.notes.end());
  if (stats.congestion) {
    result.congestion = {std::string(name_of(scenario.cluster.network.congestion_control)),
                         stats.congestion->marked, stats.congestion->cuts,
                         Bytes{stats.congestion->longest_queue}, stats.congestion->slowest};
  }
  list_faults(scenario, stats, result);
  if (!result.failure.empty()) result.failed_at = measured.failed_at;
  warn_of_idle_settings(scenario, platform.profile, measured, result);
  warn_of_fidelity(scenario, result);
  if (scenario.run.backend == "loopback") {
    // Its clock counts scheduler steps: a time, but not one of any machine.
    result.logical_rate = result.wire_rate = {};
    result.message_rate = {};
    result.warnings.push_back("loopback counts a nanosecond a step: its times are no machine's");
  }
  if (scenario.run.backend != "sim") return;

  std::vector<std::uint64_t> peers(measured.served.size());
  for (const PeerReads& pair : measured.pairs) ++peers[pair.reader.value];
  std::vector<std::uint64_t> own(peers.size());  // through the NIC to itself: not on the line
  for (const PeerReads& pair : measured.pairs) {
    if (pair.reader == pair.owner) own[pair.reader.value] += pair.reads;
  }
  std::vector<model::Floor> worst;
  for (std::uint32_t r = 0; r < measured.samples.front().size(); ++r) {
    const model::FetchLoad load =
        load_of(setup, measured, measured.samples.front()[r], measured.served[r], peers[r]);
    auto floors = floors_of(load, platform.profile, setup.options.placement);
    for (model::Floor& floor : floors) {
      if (floor.name != "line" || load.rdma_reads == 0) continue;
      const auto on_line = static_cast<double>(load.rdma_reads - std::min(load.rdma_reads, own[r]));
      floor.time = Nanos{static_cast<std::int64_t>(static_cast<double>(floor.time.count()) *
                                                   on_line / static_cast<double>(load.rdma_reads))};
    }
    std::ranges::stable_sort(floors, std::greater{}, &model::Floor::time);
    if (!floors.empty() && (worst.empty() || floors.front().time > worst.front().time)) {
      worst = std::move(floors);
    }
  }
  const Nanos without_network = worst.empty() ? Nanos{0} : worst.front().time;
  if (result.failure.empty()) add_network_floor(scenario, platform, stats, worst);
  std::ranges::stable_sort(worst, std::greater{}, &model::Floor::time);
  for (const model::Floor& floor : worst) result.floors.emplace_back(floor.name, floor.time);
  if (!worst.empty()) result.bound = worst.front().name;
  fill_links(scenario, platform, stats, result);
  warn_of_collisions(scenario, platform, setup, measured, without_network, result);
}

}  // namespace engram::tools
