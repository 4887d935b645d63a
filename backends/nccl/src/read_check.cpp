#include "read_check.hpp"

namespace engram::nccl {

Result<void> check_reads(const core::FetchPost& fetch, const core::WindowLayout& layout) {
  const std::uint64_t buffer_end = layout.buffer_window_bytes().count;
  const std::uint64_t segment = layout.stride().count;
  const std::uint64_t per_layer = fetch.shape.per_layer();
  if (fetch.indices.size() != fetch.shape.count() || fetch.dst_base.size() != fetch.shape.layers) {
    return fail(ErrorCode::invalid_argument, fetch.indices.size(), " indices and ",
                fetch.dst_base.size(), " places for a fetch of ", fetch.shape.layers, " layers of ",
                per_layer);
  }
  for (std::uint32_t l = 0; l < fetch.shape.layers; ++l) {
    const core::LayerPlace& place = fetch.router.layers[l];
    for (std::uint64_t i = 0; i < per_layer; ++i) {
      const std::int64_t index = fetch.indices[l * per_layer + i];
      const std::uint64_t dst = fetch.dst_base[l] + i * place.row_bytes;
      const bool row = index >= -1 && index < static_cast<std::int64_t>(place.rows);
      const std::uint64_t src = row && index >= 0 ? fetch.router.route(l, index).owner_offset : 0;
      const bool within_storage = row && (index < 0 || src + place.row_bytes <= segment);
      if (within_storage && dst + place.row_bytes <= buffer_end) continue;
      return fail(ErrorCode::out_of_range, "layer ", l, ", token ",
                  i / fetch.shape.entries_per_token, ", slot ", i % fetch.shape.entries_per_token,
                  ": row ", index, " of ", place.rows, " to buffer offset ", dst, ": ",
                  place.row_bytes,
                  within_storage ? " bytes end past the buffer window of "
                                 : " bytes are not within the storage segment of ",
                  within_storage ? buffer_end : segment, " bytes");
    }
  }
  return {};
}

}  // namespace engram::nccl
