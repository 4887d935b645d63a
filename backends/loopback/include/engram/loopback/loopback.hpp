// Many ranks in one process over plain memory, under a seeded scheduler.
//
// Every step picks one of the things that could happen next - a warp's next operation, a queue's
// next read, delivery or completion, a store becoming visible - so one seed is one interleaving,
// and a few thousand seeds are a few thousand machines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/core/defects.hpp"
#include "engram/core/rank_grid.hpp"

namespace engram::loopback {

struct LoopbackOptions {
  core::RankGrid grid;
  std::uint64_t seed = 1;
  core::PathCapabilities paths;
  std::uint32_t reads_in_flight = 16;  ///< on one QP
  std::uint64_t first_count = 0;       ///< where every QP's request counter starts
  bool flush_rings = false;            ///< whether a flush rings what is un-rung
  core::Defects defects;               ///< only in builds with ENGRAM_DEFECTS
  std::optional<Rank> dead_rank;       ///< its NIC answers nothing and its program never starts
  std::optional<std::uint64_t> failing_request;  ///< the n-th delivery ends in an error completion
  /// Receives one line a step, in order; null = only the hash is kept.
  std::vector<std::string>* trace = nullptr;
};

/// The loopback backend; time is counted in steps (1 step = 1 ns), and a deadline passes when
/// nothing else can happen before it.
[[nodiscard]] std::unique_ptr<core::Backend> make_loopback(const LoopbackOptions& options);

}  // namespace engram::loopback
