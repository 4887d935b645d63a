// Self-contained HTML pages (inline SVG, no script, no network): one run, or a sweep.
#pragma once

#include <string>
#include <vector>

#include "engram/tools/run_result.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

[[nodiscard]] std::string html_report(const RunResult& result, const Scenario& scenario);

/// One point of a sweep, as a report plots it.
struct SweepPoint {
  std::vector<std::string> values;  ///< of the axes, as text
  std::string status;               ///< "ok", or what went wrong
  double median_us = 0, mpps = 0;
  std::string bound;
  double bound_floor_us = 0;        ///< 0 = unknown
};

/// Lines over the axis with the most numeric values; a line for each setting of the others.
[[nodiscard]] std::string html_sweep_report(const Scenario& scenario,
                                            const std::vector<SweepPoint>& points,
                                            const std::vector<std::string>& warnings);

}  // namespace engram::tools
