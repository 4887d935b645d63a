// Rows that change while others read them: a second layer holds a version of each row.
//
//   layer `rows`      [ row 0 | row 1 | ... ]        what readers want
//   layer `versions`  [ 8 B   | 8 B   | ... ]        even: the row is whole; odd: it is being
//   written
//
// Both layers have the same number of rows, so one index leads to a row and to its version. A row
// has one writer at a time, and it waits for each step before the next: version odd, row, version
// even. A reader (versioned_protocol.hpp) takes the version, the row, and the version again.
#pragma once

#include <cstdint>
#include <span>

#include "engram/core/device.hpp"
#include "engram/core/fetch_protocol.hpp"
#include "engram/core/table.hpp"
#include "engram/core/transport.hpp"

namespace engram::core {

inline constexpr Bytes kVersionBytes{8};  ///< readers compare the low 32 bits

[[nodiscard]] ENGRAM_HD constexpr bool is_whole(std::uint32_t version) { return version % 2 == 0; }

/// Rows of one layer with their versions. Read i lands at rows_base + i * row, what its version was
/// before and after at before_base and after_base + 8 i; all in our buffer window.
struct VersionedReads {
  Router router;
  std::uint32_t rows_layer = 0, versions_layer = 1;
  const std::int64_t* indices = nullptr;  ///< [num_reads]; -1 = no row: zeros
  std::uint64_t num_reads = 0;
  std::uint64_t rows_base = 0, before_base = 0, after_base = 0;

  [[nodiscard]] ENGRAM_HD constexpr RoutedRead row(std::uint64_t i) const {
    return at(rows_layer, rows_base, i);
  }
  [[nodiscard]] ENGRAM_HD constexpr RoutedRead before(std::uint64_t i) const {
    return at(versions_layer, before_base, i);
  }
  [[nodiscard]] ENGRAM_HD constexpr RoutedRead after(std::uint64_t i) const {
    return at(versions_layer, after_base, i);
  }

 private:
  [[nodiscard]] ENGRAM_HD constexpr RoutedRead at(std::uint32_t layer, std::uint64_t base,
                                                  std::uint64_t i) const {
    const Place place = router.route(layer, indices[i]);
    const auto bytes = static_cast<std::uint32_t>(router.layers[layer].row_bytes);
    const bool far = place.path == Path::rdma || place.path == Path::none;
    return {place.path, far ? place.peer.value : router.grid.nvlink_index(place.owner),
            place.offset, base + i * bytes, bytes};
  }
};

/// Whether `versions` can hold the versions of `rows`. Errors: invalid_argument naming both layers,
/// their rows, and a version's size that is not kVersionBytes.
[[nodiscard]] Result<void> check_versions(const TableLayout& table, LayerIndex rows,
                                          LayerIndex versions);

/// An owner's change of one of its own rows, while others may read it. `version`: even, greater
/// than the last. Local; on a GPU it returns once the bytes are visible to readers. Errors:
/// invalid_argument for an odd version or a wrong size; those of write_segment.
[[nodiscard]] Result<void> update_own_row(Transport& transport, const TableLayout& table,
                                          LayerIndex rows, LayerIndex versions, std::uint64_t row,
                                          std::span<const std::byte> bytes, std::uint64_t version);

}  // namespace engram::core
