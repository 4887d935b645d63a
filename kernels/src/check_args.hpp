// What every launcher over GatherRowsArgs checks first.
#pragma once

#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// Errors: invalid_argument naming the count, size or address at fault.
[[nodiscard]] Result<void> check_args(const GatherRowsArgs& args);

}  // namespace engram::kernels
