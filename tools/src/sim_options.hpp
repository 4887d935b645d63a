// From a scenario to the sim backend's options.
#pragma once

#include <memory>

#include "backend_table.hpp"
#include "engram/sim_backend/sim_backend.hpp"
#include "sim_trace.hpp"

namespace engram::tools {

[[nodiscard]] Result<sim_backend::SimOptions> sim_options(const Scenario& scenario,
                                                          const Platform& platform,
                                                          const BackendNeeds& needs,
                                                          SimTrace* trace);
/// Null when nothing is traced.
[[nodiscard]] std::unique_ptr<SimTrace> make_sim_trace(const BackendNeeds& needs,
                                                       const Platform& platform);

}  // namespace engram::tools
