#include "engram/core/index_check.hpp"

namespace engram::core {

Result<void> check_indices(const TableLayout& table, const IndexShape& shape,
                           std::span<const std::int64_t> indices) {
  if (shape.layers != table.num_layers()) {
    return fail(ErrorCode::invalid_argument, "indices for ", shape.layers,
                " layers, but the table has ", table.num_layers());
  }
  if (indices.size() != shape.count()) {
    return fail(ErrorCode::invalid_argument, indices.size(), " indices, but ", shape.layers,
                " layers x ", shape.tokens, " tokens x ", shape.entries_per_token, " entries are ",
                shape.count());
  }
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const auto rows = table.place(LayerIndex{layer}).rows;
    const auto of_layer = indices.subspan(layer * shape.per_layer(), shape.per_layer());
    for (std::uint64_t i = 0; i < of_layer.size(); ++i) {
      const std::int64_t index = of_layer[i];
      // One comparison for both ends: -1 becomes 0, everything below it wraps far past the rows.
      if (static_cast<std::uint64_t>(index) + 1 > rows) {
        return fail(ErrorCode::out_of_range, "layer ", layer, ", token ",
                    i / shape.entries_per_token, ", slot ", i % shape.entries_per_token, ": index ",
                    index, " is neither -1 nor a row of 0..", rows, " (exclusive)");
      }
    }
  }
  return {};
}

}  // namespace engram::core
