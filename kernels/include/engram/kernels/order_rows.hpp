// Positions of a fetch in the order of their rows' addresses. Host rows read so come 2 to 5 times
// faster, because a translation covers 64 KiB and about 512 MiB of them are held.
#pragma once

#include <cuda_runtime_api.h>

#include "engram/core/units.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// Bytes of workspace for launch_order_rows: the order itself comes first.
[[nodiscard]] Result<Bytes> order_workspace(const GatherRowsArgs& args, FetchOrder order);

/// Writes a permutation of all positions, by page of (layer, index), to `workspace` as
/// std::uint32_t [rows]: hand it to gather_rows as `order`. Missing rows and those that a ticket
/// or a null owner leaves out come last. Pages: 64 KiB when sorted, else the span in at most
/// kMaxOrderBuckets parts; order within a page is arbitrary.
/// Stream-ordered, capturable, no allocation.
/// Errors: invalid_argument for kMaxBlockOrderedRows or 2^31 rows passed, or a workspace too small.
[[nodiscard]] Result<void> launch_order_rows(const GatherRowsArgs& args, FetchOrder order,
                                             void* workspace, Bytes workspace_bytes,
                                             cudaStream_t stream, Launch mode = Launch::plain);

}  // namespace engram::kernels
