// Ranks on the simulated fabric: the protocols of core on SimGrid's clock, with real bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/core/defects.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/sim/fabric.hpp"

namespace engram::sim_backend {

/// Sees every row that arrives, instead of a receive buffer that keeps it: `offset` in the buffer
/// window of `rank`. Answers whether the bytes are right.
using RowCheck =
    std::function<bool(Rank rank, std::uint64_t offset, std::span<const std::byte> row)>;

/// Bytes that are wrong in their owner's memory from `at` on, whichever way they are read.
struct CorruptRow {
  Rank owner;
  std::uint64_t offset = 0, bytes = 0;     ///< in the owner's segment
  std::uint64_t most = ~std::uint64_t{0};  ///< reads that are wrong
  sim::Picos at{0};
  std::string label, name;  ///< who asked for it, what it is; for reports
};

struct SimOptions {
  core::RankGrid grid;
  sim::FabricOptions fabric;  ///< profile, topology, fidelity, lanes, faults, seed
  core::PathCapabilities paths = {};
  std::uint32_t service_level = 0;
  std::optional<RowCheck> row_check = {};  ///< set: rows are checked as a stream and not kept
  /// Told of every QP when it is opened, before its first event; for names.
  std::function<void(sim::QpId qp, Rank local, QpIndex index, Rank remote)> qp_opened = {};
  std::vector<CorruptRow> corrupt_rows = {};
  /// Set: run() fills in the function, and the program calls it with true where a stretch begins
  /// whose link loads and wire bytes count, with false where it ends. Never called: all of the run.
  std::shared_ptr<std::function<void(bool begins)>> measured = {};
  /// Set: what was counted until then, of a run that failed.
  std::shared_ptr<core::BackendStats> until_failure = {};
  core::Defects defects = {};                        ///< only in builds with ENGRAM_DEFECTS
  sim::Picos watchdog = std::chrono::seconds{1000};  ///< of simulated time
};

/// Errors: invalid_argument when the topology has no NIC for a rank, or the fabric refuses.
[[nodiscard]] Result<std::unique_ptr<core::Backend>> make_sim(SimOptions options);

}  // namespace engram::sim_backend
