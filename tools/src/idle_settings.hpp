// Settings that a scenario makes and that could not matter in its run.
#pragma once

#include "engram/model/profile.hpp"
#include "engram/tools/run_result.hpp"
#include "fetch_run.hpp"

namespace engram::tools {

/// Adds a warning for each to `result`, whose paths are known.
void warn_of_idle_settings(const Scenario& scenario, const model::Profile& profile,
                           const FetchMeasurements& measured, RunResult& result);

}  // namespace engram::tools
