// The shape of an Engram table: layers of rows, spread over all ranks in equal runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::core {

struct LayerShape {
  std::uint64_t rows = 0;         ///< over all ranks; any number, 0 too
  Bytes row{};                    ///< a multiple of 4
  std::uint32_t scale_packs = 0;  ///< packs of 4 bytes a row (fp8); 0 = no scales
};

/// Where a layer's rows lie in each rank's segment.
struct LayerPlace {
  std::uint64_t rows = 0;
  std::uint64_t rows_per_rank = 0;  ///< ceil(rows / ranks); the last ranks may hold fewer
  std::uint64_t row_bytes = 0;
  std::uint64_t base_offset = 0;  ///< from the segment's start
  friend bool operator==(const LayerPlace&, const LayerPlace&) = default;
};

/// Which rank holds which rows. The same on every rank; nothing is looked up.
class TableLayout {
 public:
  /// Layers start on this boundary, so that 16-byte loads stay aligned for every row size that
  /// allows them.
  static constexpr Bytes kLayerAlignment{512};

  /// Errors: invalid_argument for no layers, no ranks, or a row of 0 bytes or not a multiple of 4;
  /// out_of_range when a segment does not fit 62 bits. All name the layer.
  [[nodiscard]] static Result<TableLayout> create(std::vector<LayerShape> layers,
                                                  std::uint32_t num_ranks);

  [[nodiscard]] std::uint32_t num_layers() const {
    return static_cast<std::uint32_t>(places_.size());
  }
  [[nodiscard]] std::uint32_t num_ranks() const { return num_ranks_; }
  [[nodiscard]] const LayerShape& shape(LayerIndex layer) const { return shapes_[layer.value]; }
  [[nodiscard]] const LayerPlace& place(LayerIndex layer) const { return places_[layer.value]; }
  [[nodiscard]] std::span<const LayerPlace> places() const { return places_; }
  /// Rows of `layer` that `rank` holds: [first, first + count).
  struct Run {
    std::uint64_t first = 0, count = 0;
  };
  [[nodiscard]] Run rows_of(LayerIndex layer, Rank rank) const;
  /// One rank's storage, before the window's own alignment.
  [[nodiscard]] Bytes segment_bytes() const { return segment_; }

 private:
  std::vector<LayerShape> shapes_;
  std::vector<LayerPlace> places_;
  std::uint32_t num_ranks_ = 0;
  Bytes segment_;
};

}  // namespace engram::core
