// What a fabric may be asked to be, checked before it exists.
#pragma once

#include <cstdint>

#include "engram/sim/fabric.hpp"

namespace engram::sim {

/// Errors: invalid_argument, naming the rank, lane, fault or background entry that does not fit a
/// run of `num_ranks`.
[[nodiscard]] Result<void> check_options(const FabricOptions& options, std::uint32_t num_ranks);

}  // namespace engram::sim
