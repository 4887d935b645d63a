// The layout of a symmetric window: one table gives both the sizes and the offsets.
//
//   buffer window    [ workspace | GPU buffer ]            one piece of GPU memory
//   storage window   [ segment 0 | segment 1 | ... ]       one segment, or one a scale-up rank
//
// Two windows because a window made of several physical pieces takes no put-value and no remote
// signal (NCCL 2.30.7 gives it no plain GIN handle): put targets stay in a window of one piece.
#pragma once

#include <cstdint>

#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::core {

/// Every boundary lies on 2 MiB: large pages, and the granularity of CUDA's memory mapping.
inline constexpr Bytes kWindowAlignment{2 * kMiB.count};
/// Counters and signals of every call; fixed, so that one buffer serves all settings. The older
/// reference needs 12,820,528 B of its 14 MiB.
inline constexpr Bytes kWorkspaceBytes{14 * kMiB.count};

enum class Placement : std::uint8_t { host, gpu };

/// gpu: no host memory; elastic: this rank's host segment; hybrid_elastic: the host segments of all
/// scale-up ranks of the node, so that the NIC of any rail reaches each of them.
enum class WindowKind : std::uint8_t { gpu, elastic, hybrid_elastic };

struct Region {
  Bytes offset;
  Bytes size;
  [[nodiscard]] constexpr Bytes end() const { return offset + size; }
};

/// Equal on all ranks.
class WindowLayout {
 public:
  /// `segment` is one rank's storage, `buffer` the receive regions of all operations.
  /// Errors: out_of_range when a window's size does not fit 63 bits.
  [[nodiscard]] static Result<WindowLayout> create(const RankGrid& grid, Placement placement,
                                                   Bytes segment, Bytes buffer);

  [[nodiscard]] WindowKind kind() const { return kind_; }
  [[nodiscard]] Region workspace() const { return {Bytes{0}, kWorkspaceBytes}; }
  [[nodiscard]] Region buffer() const { return {kWorkspaceBytes, buffer_}; }
  [[nodiscard]] Bytes buffer_window_bytes() const { return buffer().end(); }
  [[nodiscard]] std::uint32_t num_segments() const { return num_segments_; }
  /// Segment `i` belongs to the scale-up rank `i` (hybrid) or is the rank's own (`i` = 0).
  [[nodiscard]] Region segment(std::uint32_t i) const { return {i * stride_, stride_}; }
  /// Distance of two segments, and the bytes of one.
  [[nodiscard]] Bytes stride() const { return stride_; }
  [[nodiscard]] Bytes storage_window_bytes() const { return num_segments_ * stride_; }

 private:
  WindowKind kind_ = WindowKind::gpu;
  Bytes buffer_, stride_;
  std::uint32_t num_segments_ = 1;
};

}  // namespace engram::core
