// Dispatch and combine of published kernels, as far as they are writes over RDMA alone.
#pragma once

#include "experiments.hpp"

namespace engram::validate {

/// Experiment "expert_parallel". Errors: those of a run.
[[nodiscard]] Result<Outcome> expert_parallel(const model::PublishedFigure& figure,
                                              const model::Profile& profile);

}  // namespace engram::validate
