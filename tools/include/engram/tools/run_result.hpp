// What a run tells: the fields of one JSON object, with units as types. Key names are stable.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/units.hpp"

namespace engram::tools {

/// Over the repeats of a run; of each repeat, the slowest rank counts.
struct TimeSpread {
  Nanos median{}, min{}, max{};
};

struct PathUse {
  std::uint64_t requests = 0;
  Bytes payload{};
};

/// Bytes by the path they took; wire bytes are elsewhere.
struct PathShares {
  PathUse local, nvlink, host, rdma;
};

struct LinkLoad {
  std::string name;
  double busy = 0;  ///< share of the run's time, 0..1
  Bytes carried{};  ///< wire bytes, headers included
};

/// One rank's time in one stage, for the timeline of the report (the median repeat).
struct StageSpan {
  Rank rank{};
  std::string stage;  ///< a name of RunResult::stages
  Nanos start{}, end{};
};

using NamedTime = std::pair<std::string, Nanos>;

struct RunResult {
  std::string operation, backend, profile, fidelity;
  std::string fidelity_reason;  ///< why this fidelity: "asked for", "under a million requests"
  std::uint32_t ranks = 0;
  std::uint64_t seed = 0;
  std::string version;
  std::optional<bool> verified;  ///< unset: the run did not check

  std::uint32_t repeats = 0;                  ///< that came to their end
  TimeSpread time;                            ///< of those
  Nanos issue{}, wait{};                      ///< of the median repeat's slowest rank
  std::uint64_t requests = 0, doorbells = 0;  ///< one repeat, all ranks
  Bytes payload{}, wire{};                    ///< one repeat, all ranks
  /// A rank's payload (all paths) and wire bytes (network alone) over the median time.
  BytesPerSecond logical_rate{}, wire_rate{};
  PerSecond message_rate{};  ///< a rank's reads over the median time

  std::vector<NamedTime> stages;  ///< in order of time; they need not add up where they overlap
  std::uint32_t sms = 0, qps = 0;
  PathShares paths;
  std::string bound;              ///< a name of floors, the one that limits
  std::vector<NamedTime> floors;  ///< what each roof alone would take
  std::vector<LinkLoad> links;    ///< any order; reports show the busiest
  /// What congestion control did; unset where it was off.
  struct Congestion {
    std::string scheme;
    std::uint64_t marked = 0, cuts = 0;  ///< packets, times that a sender was slowed
    Bytes longest_queue{};               ///< that a packet met at a switch
    BytesPerSecond slowest{};            ///< flow; 0 = none was slowed
  };
  std::optional<Congestion> congestion;
  std::vector<std::string> warnings, faults;
  std::optional<Nanos> failed_at;  ///< of a run that failed: when the first rank gave up
  bool simulated = false;          ///< its times are those of a model's clock

  // For reports only; not in the JSON.
  std::vector<StageSpan> timeline;
  std::string topology_svg;  ///< the network with its load, by whoever knows it; empty = no picture
  /// Of the machine that ran it: the backend's run, without the setup. On an idle machine they
  /// agree.
  Nanos wall{}, cpu{};
  std::string failure;  ///< why verified is false or the run ended early; empty when right
};

[[nodiscard]] nlohmann::ordered_json to_json(const RunResult& result);
/// Two-space indent and a final newline; the same bytes for the same result.
[[nodiscard]] std::string to_json_text(const RunResult& result);

}  // namespace engram::tools
