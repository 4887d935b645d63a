// Where the rows of a fetch lie: layers, owners, and the pointers this GPU can read them through.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engram/kernels/fast_divide.hpp"

namespace engram::kernels {

inline constexpr int kMaxLayers = 16;     ///< layers in one launch; they travel as arguments
inline constexpr int kInlineOwners = 16;  ///< owners whose pointers travel as arguments

/// One layer of a table. Row g lies with owner g / E at row g mod E of the owner's part.
struct LayerRows {
  FastDivide entries_per_owner;   ///< E = ceil(rows / owners), any number
  std::int64_t num_rows = 0;      ///< valid indices are 0 .. num_rows - 1
  std::uint64_t base_offset = 0;  ///< bytes from an owner's pointer to the layer's first row there
  std::uint64_t tail_offset = 0;  ///< the same for the tails of a split table
};

/// A pointer per owner: own memory, a peer's over NVLink, a host segment mapped into this GPU, or
/// null, which means "another path serves it": its rows are skipped and their output left alone.
/// Up to kInlineOwners stand in `inline_base`; more in `device_base` ([num_owners], device memory).
struct RowOwners {
  std::array<const std::byte*, kInlineOwners> inline_base{};
  const std::byte* const* device_base = nullptr;  ///< used when set
  int num_owners = 0;
};

/// Rows as two arrays, e.g. 264 B = 256 + 8, so that the wide part stays aligned to 16 bytes.
/// 0 bytes = not split.
struct RowTail {
  int row_bytes = 0;        ///< multiple of 4
  bool replicated = false;  ///< every tail lies behind owners.inline_base[0], by global row
  RowOwners owners{};       ///< as the table's; same nulls when not replicated
};

}  // namespace engram::kernels
