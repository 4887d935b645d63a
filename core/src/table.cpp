#include "engram/core/table.hpp"

#include <algorithm>

namespace engram::core {

Result<TableLayout> TableLayout::create(std::vector<LayerShape> layers, std::uint32_t num_ranks) {
  if (layers.empty()) return fail(ErrorCode::invalid_argument, "a table needs at least one layer");
  if (num_ranks == 0) return fail(ErrorCode::invalid_argument, "a table needs at least one rank");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  TableLayout table;
  table.num_ranks_ = num_ranks;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerShape& layer = layers[i];
    if (layer.row.count == 0 || layer.row.count % 4 != 0) {
      return fail(ErrorCode::invalid_argument, "layer ", i, ": a row of ", layer.row.count,
                  " bytes; rows are a positive multiple of 4");
    }
    LayerPlace place;
    place.rows = layer.rows;
    // A layer without rows still divides: the router never reaches it with a valid index.
    place.rows_per_rank =
        std::max<std::uint64_t>(1, layer.rows / num_ranks + (layer.rows % num_ranks != 0 ? 1 : 0));
    place.row_bytes = layer.row.count;
    place.base_offset = align_up(Bytes{end}, kLayerAlignment).count;
    if (place.rows_per_rank > (kMost - place.base_offset) / place.row_bytes) {
      return fail(ErrorCode::out_of_range, "layer ", i, ": ", place.rows_per_rank, " rows of ",
                  place.row_bytes, " bytes a rank do not fit 62 bits");
    }
    end = place.base_offset + place.rows_per_rank * place.row_bytes;
    table.places_.push_back(place);
  }
  table.shapes_ = std::move(layers);
  table.segment_ = Bytes{end};
  return table;
}

TableLayout::Run TableLayout::rows_of(LayerIndex layer, Rank rank) const {
  const LayerPlace& at = place(layer);
  const std::uint64_t first = std::min(at.rows, rank.value * at.rows_per_rank);
  return {first, std::min(at.rows_per_rank, at.rows - first)};
}

}  // namespace engram::core
