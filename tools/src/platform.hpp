// From a scenario's cluster to what the model needs: profile, network, lanes, faults.
#pragma once

#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/model/profile.hpp"
#include "engram/model/topology.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

struct Platform {
  core::RankGrid grid;
  model::Profile profile;
  model::Topology topology;
  std::vector<std::string> notes;  ///< of a topology file: what was not understood or guessed
};

/// Errors: those of the profile and the topology, with the scenario's file, line and key.
[[nodiscard]] Result<Platform> make_platform(const Scenario& scenario);

/// `scenario.where(key)` in front of an error of a later step.
[[nodiscard]] tl::unexpected<Error> at_key(const Scenario& scenario, std::string_view key,
                                           const Error& error);

}  // namespace engram::tools
