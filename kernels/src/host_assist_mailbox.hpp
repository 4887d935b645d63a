// What the two sides of a host-assisted fetch share, all in mapped host memory but `sequence`.
#pragma once

#include <cuda_runtime_api.h>

#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels {

inline constexpr int kAssistChunkRows = 32;       ///< rows a thread gathers before it raises a flag
inline constexpr std::int64_t kAssistNoRow = -1;  ///< zeros
inline constexpr std::int64_t kAssistSkipped = -2;  ///< another path's row, or to be left alone

/// One a cache line: threads that serve neighbouring chunks do not share it.
struct alignas(64) AssistFlag {
  std::uint64_t sequence = 0;  ///< of the last fetch whose chunk lies in staging
};

/// `doorbell` counts fetches; when it changes, `job` and the indices are complete.
struct AssistMailbox {
  alignas(64) std::uint64_t doorbell = 0;
  alignas(64) GatherRowsArgs job;
};

struct AssistShared {
  AssistMailbox* mailbox = nullptr;
  std::int64_t* indices = nullptr;    ///< [max_rows]
  std::byte* staging = nullptr;       ///< [max_rows * max_row_bytes]
  AssistFlag* flags = nullptr;        ///< [chunks]
  std::uint64_t* sequence = nullptr;  ///< device memory: fetches posted; then blocks arrived
  std::uint64_t limit_ns = 0;
};

[[nodiscard]] constexpr std::int64_t assist_chunks(std::int64_t num_rows) {
  return (num_rows + kAssistChunkRows - 1) / kAssistChunkRows;
}

/// Posts the fetch and collects it. `args` is checked.
[[nodiscard]] Result<void> launch_assist_kernels(const GatherRowsArgs& args,
                                                 const AssistShared& shared, cudaStream_t stream);

/// Host side of one chunk: rows [chunk * kAssistChunkRows ...) of `job` into staging.
void gather_chunk(const GatherRowsArgs& job, const std::int64_t* indices, std::byte* staging,
                  std::int64_t chunk);

}  // namespace engram::kernels
