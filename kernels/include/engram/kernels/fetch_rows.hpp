// A fetch as planned: mark, order, gather, expand, whichever of them plan_fetch chose.
#pragma once

#include <cuda_runtime_api.h>

#include "engram/core/units.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// Device memory that one fetch of this plan needs while it runs; two in flight need two.
[[nodiscard]] Result<Bytes> fetch_workspace(const GatherRowsArgs& args, const FetchPlan& plan);

/// Readies a workspace; once, and again after a fetch that failed half-way.
[[nodiscard]] Result<void> prepare_fetch(const GatherRowsArgs& args, const FetchPlan& plan,
                                         void* workspace, cudaStream_t stream);

/// Stream-ordered, capturable, no allocation, no synchronisation. `args.order` and `args.tickets`
/// are set from the workspace. A fetch over several paths: one call whose null owners leave out
/// the host's rows, one on another stream whose null owners leave out all others.
/// Errors: those of the parts; invalid_argument when the plan is host-assisted (host_assist.hpp).
[[nodiscard]] Result<void> launch_fetch_rows(GatherRowsArgs args, const FetchPlan& plan,
                                             void* workspace, Bytes workspace_bytes,
                                             cudaStream_t stream, Launch mode = Launch::plain);

}  // namespace engram::kernels
