// From measurements to what a person asks: how long, where the time went, what bounds it.
#pragma once

#include "engram/core/backend.hpp"
#include "engram/tools/run_result.hpp"
#include "fetch_run.hpp"

namespace engram::tools {

/// Fills times, rates, paths, floors, bound, links, warnings and pictures of `result`.
void explain(const Scenario& scenario, const Platform& platform, const FetchSetup& setup,
             const FetchMeasurements& measured, const core::BackendStats& stats, RunResult& result);

/// The floors of one rank's load, and "latency": two launches and one unloaded read.
[[nodiscard]] std::vector<model::Floor> floors_of(const model::FetchLoad& load,
                                                  const model::Profile& profile,
                                                  core::Placement placement);

}  // namespace engram::tools
