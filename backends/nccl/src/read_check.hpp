// Whether every read of a fetch is a row, and within both windows. Pure.
#pragma once

#include "engram/core/transport.hpp"

namespace engram::nccl {

/// Errors: invalid_argument when counts differ; out_of_range naming the first read that is not a
/// row or ends past a window.
[[nodiscard]] Result<void> check_reads(const core::FetchPost& fetch,
                                       const core::WindowLayout& layout);

}  // namespace engram::nccl
