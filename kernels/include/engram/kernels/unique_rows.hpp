// One read a distinct row: find first copies before a gather, copy the others after it.
#pragma once

#include <cuda_runtime_api.h>

#include "engram/core/units.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

/// Workspace of a fetch with unique rows: an open hash table in global memory, at most half full,
/// and a ticket a position. The tickets come first: hand them to gather_rows as `tickets`.
[[nodiscard]] Bytes unique_workspace(std::int64_t num_rows);

/// Empties the table; once, before the first fetch and after one that failed half-way.
[[nodiscard]] Result<void> prepare_unique_rows(std::int64_t num_rows, void* workspace,
                                               cudaStream_t stream);

/// Gives each position a ticket: first copy of its row, later copy, or not served here.
/// Errors: invalid_argument for 2^30 rows and more, or a workspace too small.
[[nodiscard]] Result<void> launch_mark_unique(const GatherRowsArgs& args, void* workspace,
                                              Bytes workspace_bytes, cudaStream_t stream,
                                              Launch mode = Launch::plain);

/// Copies each later copy's row from the first copy's output, and empties the table again.
/// Between the two stands a gather_rows with the tickets, all on one stream.
[[nodiscard]] Result<void> launch_expand_unique(const GatherRowsArgs& args, void* workspace,
                                                Bytes workspace_bytes, cudaStream_t stream,
                                                Launch mode = Launch::plain);

}  // namespace engram::kernels
