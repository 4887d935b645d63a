// Which physical pieces make up one window, and where each lies. Pure arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::nccl {

/// A window of `gpu_bytes` in front and, by kind, host segments behind. Equal on all ranks.
struct WindowShape {
  core::WindowKind kind = core::WindowKind::gpu;
  Bytes gpu_bytes;      ///< may be 0 where there are segments
  Bytes segment_bytes;  ///< of one rank's host segment; 0 for kind gpu
};

struct WindowPiece {
  core::Region region;  ///< from the window's start; on 2 MiB
  bool on_host = false;
  std::optional<Rank> owner;  ///< who creates it; empty: this rank itself
};

/// The pieces in window order. `host_ranks`: the ranks of this host in rank order, self included;
/// with hybrid_elastic, segment i belongs to host_ranks[i], the same order on each of them.
/// Errors: invalid_argument when the sizes do not fit the kind; out_of_range past 2^47 bytes, which
/// is more than one process can map.
[[nodiscard]] Result<std::vector<WindowPiece>> pieces_of(const WindowShape& shape, Rank self,
                                                         const std::vector<Rank>& host_ranks);

}  // namespace engram::nccl
