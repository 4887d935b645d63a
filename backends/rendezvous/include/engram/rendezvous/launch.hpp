// Starts the ranks of a job on this machine and watches them: what `engram launch` does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::rendezvous {

/// One line a rank wrote, without its newline.
using OutputSink = std::function<void(Rank rank, bool to_stderr, std::string_view line)>;

struct LaunchOptions {
  std::uint32_t num_ranks = 1;
  std::vector<std::string> argv;  ///< the program, then its arguments
  std::vector<std::string>
      environment;             ///< "NAME=VALUE" that the ranks inherit; PATH finds argv[0]
  OutputSink sink;             ///< called from the launching thread only; see rank_output.hpp
  std::optional<Nanos> limit;  ///< the whole job; past it all ranks are ended
  Nanos kill_grace = std::chrono::seconds(3);  ///< between SIGTERM and SIGKILL
};

struct RankExit {
  int code = 0;              ///< exit status, or 128 + the signal
  bool ended_by_us = false;  ///< after another rank failed, a signal to us, or the limit
};

struct LaunchOutcome {
  std::vector<RankExit> ranks;       ///< by rank
  std::optional<Rank> first_failed;  ///< the rank that failed by itself, first in time
  int exit_status = 0;               ///< its code; 128 + a signal to the launcher; 124 at the limit
  std::string explanation;           ///< one line when exit_status is not 0
};

/// Starts `num_ranks` processes with the variables of identity.hpp, a random secret and a listening
/// socket on loopback handed to rank 0, and returns when all have ended. When one fails the others
/// get SIGTERM, then SIGKILL. SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process, unless ignored,
/// end the ranks and what they started, the second such signal at once. Call it from one thread of
/// the process, which must stay: a rank dies with it. After SIGKILL to this process only the ranks
/// themselves die (PR_SET_PDEATHSIG), not what they started: nobody is left to end it.
/// Errors: not_found when argv[0] is no program; invalid_argument; io when no process can start or
/// execute it.
[[nodiscard]] Result<LaunchOutcome> launch_local(const LaunchOptions& options);

}  // namespace engram::rendezvous
