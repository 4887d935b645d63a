#include "engram/core/scales.hpp"

#include <algorithm>

namespace engram::core {

void gather_scales(std::span<const ScalePack> table, std::uint32_t packs_per_row,
                   std::uint32_t entries_per_token, std::span<const std::int64_t> indices,
                   ScaleLayout layout, std::span<ScalePack> out) {
  const ScaleShape shape{indices.size() / entries_per_token, entries_per_token * packs_per_row,
                         layout};
  require(out.size() >= shape.size(), "the gathered scales fit");
  std::ranges::fill(out.first(shape.size()), 0);
  for (std::uint64_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;
    const std::uint64_t token = i / entries_per_token;
    const auto first = static_cast<std::uint32_t>(i % entries_per_token) * packs_per_row;
    for (std::uint32_t k = 0; k < packs_per_row; ++k) {
      out[shape.position(token, first + k)] =
          table[static_cast<std::uint64_t>(indices[i]) * packs_per_row + k];
    }
  }
}

}  // namespace engram::core
