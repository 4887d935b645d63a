// From a scenario to the sim backend's options, and its events to a Chrome trace.
#pragma once

#include <memory>

#include "backend_table.hpp"
#include "engram/sim/observer.hpp"
#include "engram/sim_backend/sim_backend.hpp"

namespace engram::tools {

[[nodiscard]] Result<sim_backend::SimOptions> sim_options(const Scenario& scenario,
                                                          const Platform& platform,
                                                          const BackendNeeds& needs,
                                                          sim::Observer* observer);
/// Null when nothing is traced.
[[nodiscard]] std::unique_ptr<sim::Observer> make_sim_observer(const BackendNeeds& needs);

}  // namespace engram::tools
