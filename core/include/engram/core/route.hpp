// index -> owner, path, peer, offset. Arithmetic alone: no table is asked, no rank is asked.
#pragma once

#include <cstdint>

#include "engram/core/device.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/table.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::core {

/// Ways to read a row, cheapest first; `none` is the row of index -1, which is all zeros.
enum class Path : std::uint8_t { none, local, nvlink, host, rdma };
inline constexpr std::uint32_t kNumPaths = 5;
[[nodiscard]] const char* name_of(Path path);

/// What a backend offers between a reader and an owner.
struct PathCapabilities {
  bool own_memory = true;    ///< a reader loads its own GPU memory
  bool nvlink_loads = true;  ///< a reader loads the GPU memory of its NVLink domain
  bool host_loads = true;    ///< a reader loads the host segments of its node
  bool rdma = true;          ///< a reader reaches its peers through the network
};

/// One row as the reader sees it.
struct Place {
  Path path = Path::none;
  Rank owner;
  Peer peer;                       ///< in the router's team; for rdma
  std::uint64_t offset = 0;        ///< in the storage window of `peer` (rdma)
  std::uint64_t owner_offset = 0;  ///< in the owner's own segment (direct paths)
};

/// Routes for one reader. Trivially copyable; kernels take it by value.
///
///   owner = index / rows_per_rank            local = index mod rows_per_rank
///   direct:  peer = owner                    offset = local * row
///   hybrid:  peer = owner / num_scaleup      offset = (owner mod num_scaleup) * stride + local *
///   row
struct Router {
  RankGrid grid;
  Rank self;
  Team team = Team::world;
  std::uint64_t stride = 0;  ///< bytes of one rank's segment within the storage window
  Path own = Path::local, domain = Path::nvlink, far = Path::rdma;
  const LayerPlace* layers = nullptr;  ///< [num_layers], in memory the reader can load
  std::uint32_t num_layers = 0;
  bool negative_is_row = false;  ///< the defect "-1 read as a row"; only in builds with defects

  /// Which path leads to `owner`.
  [[nodiscard]] ENGRAM_HD constexpr Path path_to(Rank owner) const {
    if (owner == self) return own;
    return grid.same_domain(owner, self) ? domain : far;
  }

  /// Precondition: -1 <= index < rows of the layer (see index_check.hpp).
  [[nodiscard]] ENGRAM_HD constexpr Place route(std::uint32_t layer, std::int64_t index) const {
    if (index < 0 && !negative_is_row) return {};
    const LayerPlace& at = layers[layer];
    const auto per_rank = static_cast<std::int64_t>(at.rows_per_rank);
    const Rank owner{static_cast<std::uint32_t>(index / per_rank)};
    const std::uint64_t local = static_cast<std::uint64_t>(index % per_rank);
    Place place;
    place.owner = owner;
    place.path = path_to(owner);
    place.owner_offset = at.base_offset + local * at.row_bytes;
    place.offset = place.owner_offset;
    place.peer = Peer{owner.value};
    if (team == Team::rail) {
      place.peer = Peer{grid.scaleout_index(owner)};
      place.offset += grid.scaleup_index(owner) * stride;
    }
    return place;
  }
};

/// Chooses the cheapest path to each kind of owner. `compat` sends everything through the network,
/// as the reference does. Errors: unsupported, naming the owner that no path reaches.
[[nodiscard]] Result<Router> make_router(const RankGrid& grid, Rank self, Placement placement,
                                         const TableLayout& table, const WindowLayout& window,
                                         PathCapabilities offered, bool compat);

/// The inverse: which row lies at `owner_offset` of `owner`'s segment. Precondition: one does.
[[nodiscard]] std::int64_t global_row(const TableLayout& table, LayerIndex layer, Rank owner,
                                      std::uint64_t owner_offset);

}  // namespace engram::core
