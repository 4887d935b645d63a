// What no single key can tell: numbers that must fit together, files that must be there.
#pragma once

#include "diagnostics.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

/// Finds the files that `scenario` names (and replaces the names by where they are) and adds a
/// line to `found` for each thing that does not fit.
void check_scenario(Scenario& scenario, Diagnostics& found);

}  // namespace engram::tools
