#include "engram/core/fetch_plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace engram::core {
namespace {

/// The older library allocates this many QPs: 17 direct, 129 hybrid (65 on NICs with fast RDMA
/// atomics), and a fetch uses them all.
constexpr std::uint32_t kOlderQpsDirect = 17, kOlderQpsHybrid = 129;
constexpr std::uint32_t kOlderDepth = 1024, kOlderFlushDepth = 768;
/// The newer library leaves this much of a queue free before it rings.
constexpr std::uint32_t kNewerReserve = 256;

Result<std::uint32_t> within_limit(const char* name, std::uint32_t value, std::uint32_t most) {
  if (value >= 1 && value <= most) return value;
  return fail(ErrorCode::invalid_argument, name, " = ", value, "; accepted: 1 to ", most);
}

std::uint32_t newer_qps(const FetchLimits& limits, std::uint32_t peers) {
  const double in_flight =
      limits.nic_reads.value * static_cast<double>(limits.round_trip.count()) / 1e9;
  const double qps = std::ceil(in_flight / limits.reads_in_flight / peers);
  return static_cast<std::uint32_t>(std::max(1.0, qps));
}

}  // namespace

Result<FetchPlan> plan_fetch(const RankGrid& grid, const FetchLoad& load, const FetchLimits& limits,
                             SizingRule rule, const FetchOverrides& overrides,
                             std::vector<PlanStep>* steps) {
  const auto note = [&](std::string name, std::uint64_t value, std::string formula) {
    if (steps != nullptr) {
      steps->push_back({std::move(name), fmt::format("{}", value), std::move(formula)});
    }
  };
  const bool hybrid = grid.mode == Mode::hybrid;
  const bool older = rule == SizingRule::older;
  FetchPlan plan;
  plan.num_peers = grid.team_size(hybrid ? Team::rail : Team::world);
  note("peers", plan.num_peers, hybrid ? "one a scale-out domain (rail)" : "all ranks");

  const std::uint32_t planned_qps =
      older ? (hybrid ? kOlderQpsHybrid : kOlderQpsDirect) : newer_qps(limits, plan.num_peers);
  auto qps = within_limit("qps", overrides.qps.value_or(std::min(planned_qps, limits.max_qps)),
                          limits.max_qps);
  if (!qps) return tl::unexpected(qps.error());
  plan.num_qps = *qps;
  note("qps", plan.num_qps,
       overrides.qps ? "given"
       : older       ? "all allocated QPs: 17 direct, 129 hybrid"
                     : fmt::format("ceil({:g} M reads/s x {:g} us / {} in flight / {} peers)",
                                   limits.nic_reads.value / 1e6, microseconds(limits.round_trip),
                                   limits.reads_in_flight, plan.num_peers));

  plan.warps = limits.warps_per_block;
  plan.units_per_peer = std::max(1u, plan.warps / plan.num_peers);
  note("warps a QP and peer", plan.units_per_peer,
       fmt::format("max(1, {} warps a block / {} peers)", plan.warps, plan.num_peers));

  const std::uint64_t reads = load.reads_per_layer;
  const std::uint64_t per_queue = (reads + std::uint64_t{plan.num_qps} * plan.num_peers - 1) /
                                  (std::uint64_t{plan.num_qps} * plan.num_peers);
  std::uint32_t depth = kOlderDepth;
  if (!older) {
    while (depth < limits.max_depth && depth < per_queue + kNewerReserve) depth *= 2;
  }
  auto checked = within_limit("depth", overrides.depth.value_or(std::min(depth, limits.max_depth)),
                              limits.max_depth);
  if (!checked) return tl::unexpected(checked.error());
  if (!std::has_single_bit(*checked)) {
    return fail(ErrorCode::invalid_argument, "depth = ", *checked,
                "; accepted: a power of two up to ", limits.max_depth);
  }
  plan.depth = *checked;
  note("depth", plan.depth,
       overrides.depth ? "given"
       : older         ? "1024 requests a QP"
                       : fmt::format("1024, doubled until {} requests a queue + {} fit", per_queue,
                                     kNewerReserve));

  // All units of a queue, those of every fetch in flight together, leave room: none ever waits for
  // a slot that only un-rung requests hold.
  const std::uint32_t reserve = std::min(kNewerReserve, plan.depth / 4);
  const std::uint32_t rule_flush =
      older ? std::min(kOlderFlushDepth, plan.depth - reserve) : plan.depth - reserve;
  auto flush = within_limit("flush_depth", overrides.flush_depth.value_or(std::max(1u, rule_flush)),
                            plan.depth);
  if (!flush) return tl::unexpected(flush.error());
  const std::uint32_t room = std::max(1u, plan.depth - reserve);
  const std::uint32_t sharers = plan.units_per_peer * std::max(1u, load.in_flight);
  plan.ring_every = std::max(1u, std::min(*flush, room) / sharers);
  note("ring every", plan.ring_every,
       fmt::format(
           "min({} flush depth, {} depth - {} reserve) / ({} warps of the queue x {} fetches)",
           *flush, plan.depth, reserve, plan.units_per_peer, load.in_flight));

  const std::uint64_t units = std::uint64_t{plan.num_qps} * plan.units_per_peer;
  plan.chunk = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>((reads + units - 1) / units, 1, kWarpLanes));
  note("chunk", plan.chunk,
       fmt::format("ceil({} reads / {} QPs / {}), at most {}", reads, plan.num_qps,
                   plan.units_per_peer, kWarpLanes));

  auto sms =
      within_limit("sms", overrides.sms.value_or(std::min(limits.direct_blocks, limits.num_sms)),
                   limits.num_sms);
  if (!sms) return tl::unexpected(sms.error());
  plan.direct_blocks = *sms;
  note("blocks for loads", plan.direct_blocks,
       overrides.sms                           ? "given"
       : limits.direct_blocks < limits.num_sms ? "16 SMs reach 97 % of an NVLink port (measured)"
                                               : "all SMs: the shortest start of a small fetch");
  return plan;
}

}  // namespace engram::core
