// Ranks on the simulated fabric: the protocols of core on SimGrid's clock, with real bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "engram/core/backend.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/sim/fabric.hpp"

namespace engram::sim_backend {

/// Sees every row that arrives, instead of a receive buffer that keeps it: `offset` in the buffer
/// window of `rank`. Answers whether the bytes are right.
using RowCheck =
    std::function<bool(Rank rank, std::uint64_t offset, std::span<const std::byte> row)>;

struct SimOptions {
  core::RankGrid grid;
  sim::FabricOptions fabric;  ///< profile, topology, fidelity, lanes, faults, seed
  core::PathCapabilities paths = {};
  std::uint32_t service_level = 0;
  std::optional<RowCheck> row_check = {};  ///< set: rows are checked as a stream and not kept
  /// Told of every QP when it is opened, before its first event; for names.
  std::function<void(sim::QpId qp, Rank local, QpIndex index, Rank remote)> qp_opened = {};
  sim::Picos watchdog = std::chrono::seconds{1000};  ///< of simulated time
};

/// Errors: invalid_argument when the topology has no NIC for a rank, or the fabric refuses.
[[nodiscard]] Result<std::unique_ptr<core::Backend>> make_sim(SimOptions options);

}  // namespace engram::sim_backend
