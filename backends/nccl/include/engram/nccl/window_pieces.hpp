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
  /// hybrid_elastic: neighbouring ranks that map each other's segments, an NVLink domain of one
  /// host; 0: all ranks of the host.
  std::uint32_t sharing_ranks = 0;
};

/// The ranks that share segments with `self`: those of `host_ranks` (this host's, in rank order) in
/// its run of `sharing_ranks`. Errors: unsupported, naming those that are on other hosts.
[[nodiscard]] Result<std::vector<Rank>> sharing_group(const std::vector<Rank>& host_ranks,
                                                      Rank self, std::uint32_t sharing_ranks);

struct WindowPiece {
  core::Region region;  ///< from the window's start; on 2 MiB
  bool on_host = false;
  std::optional<Rank> owner;  ///< who creates it; empty: this rank itself
};

/// The pieces in window order. `host_ranks`: the ranks that share segments (sharing_group), self
/// included; with hybrid_elastic, segment i belongs to host_ranks[i], the same order on each.
/// Errors: invalid_argument when the sizes do not fit the kind; out_of_range past 2^47 bytes, which
/// is more than one process can map.
[[nodiscard]] Result<std::vector<WindowPiece>> pieces_of(const WindowShape& shape, Rank self,
                                                         const std::vector<Rank>& host_ranks);

}  // namespace engram::nccl
