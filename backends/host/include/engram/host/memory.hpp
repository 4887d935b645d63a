// The windows of all ranks in this process: plain memory, or a function where a table is generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/transport.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::host {

/// The two windows of core/window_layout.hpp.
enum class Window : std::uint8_t { buffer, storage };

/// Zeroed pages that take no memory until they are touched.
class Mapping {
 public:
  Mapping() = default;
  [[nodiscard]] static Result<Mapping> create(Bytes size);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  Bytes size_;
};

/// Bytes by (rank, window, offset). A hybrid storage window maps the segments of its whole node, so
/// several ranks' windows lead to the same segment.
class Memory {
 public:
  Memory(const core::RankGrid& grid, bool keep_buffers)
      : grid_(grid), keep_buffers_(keep_buffers) {}

  /// Collective: the first rank to come allocates. Errors: invalid_argument when ranks disagree.
  [[nodiscard]] Result<void> open(Rank rank, const core::WindowLayout& layout,
                                  const std::optional<core::SegmentFunction>& segment);
  [[nodiscard]] bool is_open() const { return layout_.has_value(); }
  [[nodiscard]] const core::WindowLayout& layout() const { return *layout_; }
  [[nodiscard]] bool generated() const { return segment_.has_value(); }

  /// Whether [offset, offset + bytes) lies inside the window (and inside one segment of it).
  [[nodiscard]] bool contains(Window window, std::uint64_t offset, std::uint64_t bytes) const;
  /// Where it lies. Precondition: contains(). Null for generated storage.
  [[nodiscard]] std::byte* at(Rank rank, Window window, std::uint64_t offset) const;
  /// Whose memory it is: the rank itself, or the owner of the segment.
  [[nodiscard]] Rank owner(Rank rank, Window window, std::uint64_t offset) const;
  /// Copies out, generating where storage is generated. Precondition: contains().
  void read(Rank rank, Window window, std::uint64_t offset, std::span<std::byte> out) const;
  /// Where `rank`'s own segment begins in its storage window.
  [[nodiscard]] std::uint64_t own_segment(Rank rank) const {
    return layout_->num_segments() == 1 ? 0 : grid_.scaleup_index(rank) * layout_->stride().count;
  }
  /// The other way. Preconditions: contains(), and the window is not generated.
  void write(Rank rank, Window window, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Adds to the 64-bit word there; any alignment.
  void add(Rank rank, Window window, std::uint64_t offset, std::uint64_t value);

 private:
  core::RankGrid grid_;
  bool keep_buffers_;
  std::optional<core::WindowLayout> layout_;
  std::optional<core::SegmentFunction> segment_;
  std::vector<Mapping> buffers_, segments_;  // [ranks]
};

}  // namespace engram::host
