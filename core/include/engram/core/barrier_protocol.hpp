// Barriers, written once: over the network by signals, inside an NVLink domain by signed words.
#pragma once

#include <cstdint>

#include "engram/core/device.hpp"
#include "engram/core/gin.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/core/wait_error.hpp"

namespace engram::core {

/// Where the barrier words lie in the workspace: two 32-bit words at its start.
inline constexpr std::uint64_t kBarrierWordsOffset = 0;

struct BarrierArgs {
  RankGrid grid;
  Rank self;
  std::uint64_t epoch = 0;  ///< barriers this rank has passed; equal on all ranks
  Deadline deadline;
};

/// Signals every peer of `team` (signal id = the sender's position) and waits for all of them.
/// The caller has flushed whatever must be visible.
template <GinContext Gin, WarpGroup Warp, WaitErrorSink Sink>
ENGRAM_HD void network_barrier(const Gin& gin, Warp& warp, Team team, const BarrierArgs& args,
                               Sink& sink) {
  const std::uint32_t size = args.grid.team_size(team);
  const std::uint32_t me = args.grid.peer_of(team, args.self).value;
  for (std::uint32_t first = 0; first < size; first += kWarpLanes) {
    const std::uint32_t count = size - first < kWarpLanes ? size - first : kWarpLanes;
    warp.for_lanes(count, [&](std::uint32_t lane) {
      if (first + lane != me) gin.signal(team, first + lane, SignalId{me}, 1);
    });
  }
  for (std::uint32_t first = 0; first < size; first += kWarpLanes) {
    const std::uint32_t count = size - first < kWarpLanes ? size - first : kWarpLanes;
    warp.for_lanes(count, [&](std::uint32_t lane) {
      const std::uint32_t peer = first + lane;
      if (peer == me) return;
      const WaitStatus status = gin.wait_signal(SignalId{peer}, args.epoch + 1, args.deadline);
      if (status == WaitStatus::ok) return;
      sink.report(WaitError{status, args.self.value,
                            args.grid.rank_of(team, args.self, Peer{peer}).value, 0,
                            WaitError::kUnset, gin.read_signal(SignalId{peer}), args.epoch + 1});
    });
  }
}

/// Two words that are never reset: bit 0 of the epoch picks the word, bit 1 the sign. Every rank
/// adds to the word of every peer with a release of system scope (DeepEP #715: a weaker one lets a
/// peer leave before the rows written ahead of the barrier are visible to its NIC).
template <GinContext Gin, WarpGroup Warp, WaitErrorSink Sink>
ENGRAM_HD void nvlink_barrier(const Gin& gin, Warp& warp, typename Gin::Window buffer,
                              const BarrierArgs& args, Sink& sink) {
  const std::uint32_t size = args.grid.num_nvlink;
  const bool down = (args.epoch >> 1 & 1) != 0;
  const std::uint64_t offset = kBarrierWordsOffset + (args.epoch & 1) * sizeof(std::int32_t);
  for (std::uint32_t first = 0; first < size; first += kWarpLanes) {
    const std::uint32_t count = size - first < kWarpLanes ? size - first : kWarpLanes;
    warp.for_lanes(count, [&](std::uint32_t lane) {
      std::byte* word = gin.peer_pointer(Team::lsa, first + lane, buffer, offset);
      warp.add_release(reinterpret_cast<std::int32_t*>(word), down ? -1 : 1);
    });
  }
  warp.once([&] {
    auto* word = reinterpret_cast<std::int32_t*>(gin.local_pointer(buffer, offset));
    const auto goal = down ? 0 : static_cast<std::int32_t>(size);
    const WaitStatus status = warp.wait_word(word, goal, args.deadline);
    if (status == WaitStatus::ok) return;
    sink.report(WaitError{status, args.self.value, WaitError::kUnset, 0, WaitError::kUnset,
                          static_cast<std::uint64_t>(warp.load_word(word)),
                          static_cast<std::uint64_t>(goal)});
  });
}

}  // namespace engram::core
