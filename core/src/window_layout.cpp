#include "engram/core/window_layout.hpp"

#include <limits>

namespace engram::core {

Result<WindowLayout> WindowLayout::create(const RankGrid& grid, Placement placement, Bytes segment,
                                          Bytes buffer) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint32_t segments = grid.mode == Mode::hybrid ? grid.num_scaleup() : 1;
  const std::uint64_t room = kMost / segments - kWindowAlignment.count;
  if (segment.count > room) {
    return fail(ErrorCode::out_of_range, "a storage window of ", segments, " segments of ",
                segment.count, " bytes does not fit 63 bits");
  }
  if (buffer.count > kMost - kWorkspaceBytes.count - kWindowAlignment.count) {
    return fail(ErrorCode::out_of_range, "a buffer of ", buffer.count,
                " bytes does not fit 63 bits");
  }
  WindowLayout layout;
  layout.kind_ = placement == Placement::gpu ? WindowKind::gpu
                 : grid.mode == Mode::hybrid ? WindowKind::hybrid_elastic
                                             : WindowKind::elastic;
  layout.buffer_ = align_up(buffer, kWindowAlignment);
  layout.stride_ = align_up(segment, kWindowAlignment);
  layout.num_segments_ = segments;
  return layout;
}

}  // namespace engram::core
