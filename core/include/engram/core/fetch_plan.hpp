// How many SMs, QPs, how deep, how often to ring: follows from counts and rates, never from tuning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/device.hpp"
#include "engram/core/gin.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::core {

/// older: all allocated QPs, depth 1024, ring every 768 requests to a peer (DeepEP V2, July 2026).
/// newer: QPs that keep the NIC busy for one round trip (DeepEP V2.5, September 2026).
enum class SizingRule : std::uint8_t { older, newer };

/// What a fetch asks of one rank.
struct FetchLoad {
  std::uint32_t layers = 1;
  std::uint64_t reads_per_layer = 0;
  Bytes row{};
  std::uint32_t in_flight = 1;  ///< fetches that share the QPs at a time
};

/// What the backend has. Defaults: the newer reference's planning constants.
struct FetchLimits {
  PerSecond nic_reads = millions_per_second(45);  ///< ConnectX-7; 90 M/s a ConnectX-8
  Nanos round_trip = std::chrono::microseconds{10};
  std::uint32_t reads_in_flight = 16;  ///< outstanding reads a QP
  std::uint32_t max_qps = 129;         ///< contexts the communicator has
  std::uint32_t max_depth = 32768;
  std::uint32_t num_sms = 132;  ///< H100 and H200
  std::uint32_t warps_per_block = 32;
  /// Blocks that copy rows by loads where none are asked for. One SM pulls 48 GB/s over NVLink at
  /// most and 16 of them reach 97 % of the link (measured on a 2x H200 host); more blocks only
  /// shorten the start of a small fetch.
  std::uint32_t direct_blocks = 16;
};

/// Unset = planned.
struct FetchOverrides {
  std::optional<std::uint32_t> qps, depth, flush_depth, sms;
};

/// The split of a fetch's network reads. A *unit* is a warp's work for one (QP, peer): it alone
/// posts, rings on its last request, and flushes for itself, so warps share no counters.
struct FetchPlan {
  std::uint32_t num_qps = 1;  ///< one thread block drives one
  std::uint32_t warps = 32;   ///< a block
  std::uint32_t num_peers = 1;
  std::uint32_t units_per_peer = 1;  ///< warps of a block that share a (QP, peer)
  std::uint32_t ring_every = 768;    ///< un-rung requests a unit may have
  std::uint32_t chunk = 32;          ///< consecutive reads that go to one unit's QP
  std::uint32_t depth = 1024;        ///< requests a QP holds
  std::uint32_t direct_blocks = 1;   ///< blocks that copy rows by loads

  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t units_per_qp() const {
    return num_peers * units_per_peer;
  }
  friend bool operator==(const FetchPlan&, const FetchPlan&) = default;
};

/// Where a plan's number comes from, for `engram plan`.
struct PlanStep {
  std::string name, value, formula;
};

/// Errors: invalid_argument naming the number and what is accepted (QPs 1..max, depth a power of
/// two up to the limit, flush depth 1..depth, SMs 1..num_sms).
[[nodiscard]] Result<FetchPlan> plan_fetch(const RankGrid& grid, const FetchLoad& load,
                                           const FetchLimits& limits, SizingRule rule,
                                           const FetchOverrides& overrides,
                                           std::vector<PlanStep>* steps = nullptr);

}  // namespace engram::core
