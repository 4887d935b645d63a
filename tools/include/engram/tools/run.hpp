// Running and planning a scenario: the seam between the command line and the framework.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/tools/chrome_trace.hpp"
#include "engram/tools/run_result.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

/// Who watches a run. Both may be unset.
struct RunObserver {
  std::function<void(std::uint32_t done, std::uint32_t total)> on_progress;
  TraceSink* trace = nullptr;  ///< of one repeat, the first
};

/// Runs `scenario` and checks it where it asks for that. A run whose check failed, or that a fault
/// ended, is a value with `failure` set; its numbers stand for what was seen until then.
/// Errors: invalid_argument, not_found (bad input); unsupported (this machine cannot).
[[nodiscard]] Result<RunResult> run_scenario(const Scenario& scenario, RunObserver& observer);

/// One planned number with the formula that gave it and the roof that bounds it.
struct PlanLine {
  std::string group;  ///< "fetch", "buffers", "floors"; lines of a group stand together
  std::string name;   ///< "qps", "depth", "floor_us.line"
  double value = 0;
  std::string unit;     ///< "", "B", "us"
  std::string formula;  ///< with the numbers in it
  std::string roof;     ///< what bounds it; empty where nothing does
};

struct PlanResult {
  std::string title;  ///< one line: operation, ranks, profile
  std::vector<PlanLine> lines;
  std::vector<std::string> warnings;
};

/// Errors: as run_scenario.
[[nodiscard]] Result<PlanResult> plan_scenario(const Scenario& scenario);

}  // namespace engram::tools
