// One simulated run in a child process: SimGrid's clock is global, and a crash stays in the child.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "engram/core/result.hpp"

namespace engram::sim {

/// Runs `work` in a forked child and returns the bytes it returned (about 1.5 ms a call).
/// Precondition: no Engine is alive in this process.
/// Errors: what `work` answered; internal when the child crashed (names the signal), exited or
/// threw; timed_out when it ran past `wall_limit`, after which it is killed; io when the system
/// refuses a pipe or a process.
[[nodiscard]] Result<std::string> run_forked(
    const std::function<Result<std::string>()>& work,
    std::chrono::milliseconds wall_limit = std::chrono::minutes{5});

}  // namespace engram::sim
