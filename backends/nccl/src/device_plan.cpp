#include "engram/nccl/device_plan.hpp"

namespace engram::nccl {
namespace {

/// Far above what a NIC can hold (50-planning: 129 at most by default); catches a wrong unit.
constexpr std::uint32_t kMaxQps = 4096;
constexpr std::uint32_t kMaxDepth = 1u << 16;

constexpr std::string_view kNoGin =
    "; NCCL offers no GIN type here: `engram doctor` says why (no RDMA NIC, NCCL_GIN_ENABLE=0, no "
    "NCCL_GIN_PLUGIN, or NCCL_CUMEM_ENABLE=0)";

Result<void> choose_connection(const CommFacts& facts, const DeviceOptions& options,
                               DevicePlan& plan) {
  const bool hybrid = options.mode == core::Mode::hybrid;
  const bool alone = facts.num_ranks == 1;
  const ncclGinType_t offered = hybrid ? facts.railed : facts.gin;
  if (!alone && offered != NCCL_GIN_TYPE_NONE) {
    plan.gin = offered;
    plan.connection = hybrid ? NCCL_GIN_CONNECTION_RAIL : NCCL_GIN_CONNECTION_FULL;
    return {};
  }
  const bool rails_only = !hybrid && facts.railed != NCCL_GIN_TYPE_NONE;
  if (options.require_network) {
    return fail(ErrorCode::unsupported, "a network was required between ", facts.num_ranks,
                alone ? " rank" : " ranks", alone ? "" : kNoGin);
  }
  if (facts.num_lsa_teams > 1) {
    return fail(
        ErrorCode::unsupported, facts.num_ranks, " ranks are in ", facts.num_lsa_teams,
        " NVLink domains, and ", hybrid ? "hybrid" : "direct", " mode needs ",
        hybrid ? "rail" : "full", " connections between them",
        rails_only ? "; NCCL offers rails only (NCCL_CROSS_NIC=0): use hybrid mode" : kNoGin);
  }
  plan.notes.push_back(alone ? "one rank: no network"
                             : "no GIN type: all peers are reached by loads and stores");
  return {};
}

}  // namespace

CommFacts facts_of(const ncclCommProperties_t& p) {
  return {static_cast<std::uint32_t>(p.nRanks), static_cast<std::uint32_t>(p.nLsaTeams),
          p.deviceApiSupport, p.ginType, p.railedGinType};
}

std::string_view name_of(ncclGinType_t type) {
  switch (type) {
    case NCCL_GIN_TYPE_NONE:
      return "none";
    case NCCL_GIN_TYPE_PROXY:
      return "proxy";
    case NCCL_GIN_TYPE_GDAKI:
      return "gdaki";
    case NCCL_GIN_TYPE_GPI:
      return "gpi";
    default:
      return "other";  // newer types, by number in the reports
  }
}

std::string_view name_of(ncclGinConnectionType_t type) {
  switch (type) {
    case NCCL_GIN_CONNECTION_NONE:
      return "none";
    case NCCL_GIN_CONNECTION_FULL:
      return "full";
    case NCCL_GIN_CONNECTION_RAIL:
      return "rail";
    default:
      return "custom";
  }
}

Result<DevicePlan> plan_device(const CommFacts& offered, const DeviceOptions& options) {
  CommFacts facts = offered;
  if (!options.use_network) facts.gin = facts.railed = NCCL_GIN_TYPE_NONE;
  if (!facts.device_api) {
    return fail(ErrorCode::unsupported, "this communicator has no device API: NCCL needs ",
                "peer access between the GPUs of a host and cuMem (NCCL_CUMEM_ENABLE, ",
                "NCCL_WIN_ENABLE not 0); `engram doctor` shows which is missing");
  }
  if (facts.num_lsa_teams == 0 || facts.num_ranks % facts.num_lsa_teams != 0) {
    return fail(ErrorCode::invalid_argument, facts.num_ranks, " ranks in ", facts.num_lsa_teams,
                " NVLink domains: every domain must have the same number");
  }
  const std::uint32_t num_signals = options.num_signals.value_or(facts.num_ranks + 4);
  if (options.num_qps == 0 || options.num_qps > kMaxQps || options.queue_depth > kMaxDepth ||
      num_signals < facts.num_ranks + 4) {
    return fail(ErrorCode::invalid_argument, options.num_qps, " QPs (1 to ", kMaxQps, ") of depth ",
                options.queue_depth, " (at most ", kMaxDepth, ") with ", num_signals,
                " signals (at least ranks + 4 = ", facts.num_ranks + 4, ")");
  }
  DevicePlan plan;
  const auto grid =
      core::RankGrid::create(facts.num_ranks, facts.num_ranks / facts.num_lsa_teams, options.mode);
  if (!grid) return tl::unexpected<Error>(grid.error());
  plan.grid = *grid;
  if (const auto chosen = choose_connection(facts, options, plan); !chosen) {
    return tl::unexpected<Error>(chosen.error());
  }
  if (!plan.has_network()) return plan;
  plan.num_qps = options.num_qps;
  plan.exclusive_qps = options.exclusive_qps;
  plan.queue_depth = options.queue_depth;
  plan.traffic_class = options.traffic_class;
  plan.num_signals = num_signals;
  plan.num_counters = options.num_counters;
  if (plan.gin == NCCL_GIN_TYPE_PROXY && plan.queue_depth != 0) {
    // NCCL derives the proxy's depth itself (32 x the plug-in's maxRecvs); some versions refuse any
    // other value (DeepEP #646).
    plan.notes.push_back(
        fmt::format("queue depth {} not passed on: the proxy sets its own", plan.queue_depth));
    plan.queue_depth = 0;
  }
  return plan;
}

}  // namespace engram::nccl
