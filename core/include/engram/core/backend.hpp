// A backend runs one program on all ranks and says what it counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/core/transport.hpp"
#include "engram/core/units.hpp"

namespace engram::core {

/// How busy one link was over a run.
struct LinkLoad {
  std::string name;
  double busy = 0;  ///< share of the run's time, 0..1
  Bytes bytes;      ///< headers included
};

/// What congestion control did over a run.
struct CongestionUse {
  std::uint64_t marked = 0;         ///< packets that met a long queue at a switch
  std::uint64_t cuts = 0;           ///< times that a sender was slowed
  std::uint64_t longest_queue = 0;  ///< bytes that a packet met at a switch's port, at most
  BytesPerSecond slowest{};         ///< of all flows; 0 = none was slowed
};

/// What a backend counted over one run, over all ranks.
struct BackendStats {
  std::uint64_t requests = 0;     ///< posted to QPs
  std::uint64_t completions = 0;  ///< each request completes exactly once
  std::uint64_t doorbells = 0;
  std::uint64_t max_queued = 0;           ///< un-rung + outstanding on one QP, at most
  std::uint64_t max_reads_in_flight = 0;  ///< on one QP, at most
  std::uint64_t queues = 0;               ///< QPs in use
  Bytes wire;                             ///< bytes on the network, headers included
  std::uint64_t steps = 0;                ///< events or scheduler steps
  std::uint64_t trace_hash = 0;           ///< over every step in order; equal for equal runs
  std::vector<LinkLoad> links;
  std::optional<CongestionUse> congestion;  ///< unset: it was off, or there is none
  std::vector<std::string> warnings;
  std::vector<std::string> faults;  ///< what was injected and what became of it
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const RankGrid& grid() const = 0;
  /// Runs `main` once on each rank and returns when all have ended.
  /// Errors: the first that a rank returned, with the rank in front; deadlock, naming who waits.
  [[nodiscard]] virtual Result<BackendStats> run(const RankMain& main) = 0;
};

}  // namespace engram::core
