// The Engram service: a table spread over all ranks, of which any rank reads any row.
//
//   write (collective)  ->  fetch -> wait(layer), in any order -> read -> finish
//
// This is where a fetch begins; from here its path is route.hpp -> transport.hpp ->
// fetch_protocol.hpp -> the backend's queue pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engram/core/defects.hpp"
#include "engram/core/fetch_plan.hpp"
#include "engram/core/lease.hpp"
#include "engram/core/result.hpp"
#include "engram/core/scales.hpp"
#include "engram/core/table.hpp"
#include "engram/core/transport.hpp"

namespace engram::core {

struct EngramOptions {
  Placement placement = Placement::host;
  IndexShape largest;           ///< fetches up to this size fit; the same on all ranks
  std::uint32_t in_flight = 1;  ///< fetches of that size at a time
  bool compat = false;          ///< the reference's choices: every read through the NIC
  SizingRule sizing = SizingRule::newer;
  FetchOverrides overrides;
  std::optional<SegmentFunction> segment;  ///< generated rows instead of written ones
  Defects defects;                         ///< looked at only in builds with ENGRAM_DEFECTS
};

/// One fetch in flight. Rows of layer l lie at row_offset(l) in the buffer window, row i after row
/// i - 1. Owned by the caller; finish() ends it.
class Fetch {
 public:
  [[nodiscard]] const IndexShape& shape() const { return shape_; }
  [[nodiscard]] const FetchPlan& plan() const { return plan_; }
  [[nodiscard]] Bytes row_offset(LayerIndex layer) const { return {dst_base_[layer.value]}; }
  /// Reads by path, known when the fetch is posted.
  struct PathCount {
    std::uint64_t requests = 0;
    Bytes bytes;
  };
  [[nodiscard]] const PathCount& reads_by(Path path) const {
    return by_path_[static_cast<std::size_t>(path)];
  }

 private:
  friend class EngramTable;
  IndexShape shape_;
  FetchPlan plan_;
  Ticket ticket_;
  std::vector<std::uint64_t> dst_base_;
  std::vector<bool> waited_;
  PathCount by_path_[kNumPaths];
  std::optional<LeaseId> lease_;
};

class EngramTable {
 public:
  /// Plans windows and opens them; collective. `transport` outlives the table.
  [[nodiscard]] static Result<EngramTable> create(Transport& transport, TableLayout layout,
                                                  EngramOptions options);

  [[nodiscard]] const TableLayout& layout() const { return *layout_; }
  [[nodiscard]] const WindowLayout& window() const { return window_; }
  [[nodiscard]] const Router& router() const { return router_; }

  /// Replaces this rank's rows of `layer` ([rows_of(layer, rank).count, row]); collective. Earlier
  /// reads are finished before (barrier), the new rows are visible to all after (barrier).
  /// Errors: invalid_argument naming both sizes; whatever the barrier reports.
  [[nodiscard]] Result<void> write(LayerIndex layer, std::span<const std::byte> rows, Nanos limit);

  /// Gives this rank the scales of all rows of `layer` ([rows, scale_packs]): fp8 rows keep theirs
  /// replicated, so they never cross the network. Local; every rank calls it.
  /// Errors: invalid_argument naming both sizes.
  [[nodiscard]] Result<void> write_scales(LayerIndex layer, std::vector<ScalePack> packs);
  /// Gathers the scales of `indices` ([tokens, entries] of `layer`), usually while rows travel; -1
  /// gives zeros. `out` is resized to ScaleShape::size(). Errors: invalid_argument when the layer
  /// has none, or tokens are cut; those of check_indices.
  [[nodiscard]] Result<void> scales(LayerIndex layer, std::uint32_t entries_per_token,
                                    std::span<const std::int64_t> indices, ScaleLayout layout,
                                    std::vector<ScalePack>& out) const;

  /// Starts reading the rows that `indices` ([layers, tokens, entries], -1 = none) name.
  /// `region`: where in the receive buffer; unset = the first gap.
  /// Errors: those of check_indices, plan_fetch and LeaseBook; then nothing is started.
  [[nodiscard]] Result<Fetch> fetch(const IndexShape& shape, std::span<const std::int64_t> indices,
                                    std::optional<Region> region = std::nullopt);
  /// Returns once all reads are posted and no SM is held any more; optional before wait().
  [[nodiscard]] Result<IssueCounts> issued(const Fetch& fetch, Nanos limit);
  /// Errors: those of Transport::wait. A second wait for the same layer returns at once.
  [[nodiscard]] Result<void> wait(Fetch& fetch, LayerIndex layer, Nanos limit);
  /// Copies the rows of `layer` out. Precondition: it was waited for.
  [[nodiscard]] Result<void> read(const Fetch& fetch, LayerIndex layer,
                                  std::span<std::byte> out) const;
  /// Waits for the layers that nobody waited for, then frees the receive region.
  [[nodiscard]] Result<void> finish(Fetch&& fetch, Nanos limit);

  /// Bytes that a fetch of this shape needs in the receive buffer.
  [[nodiscard]] static Bytes receive_bytes(const TableLayout& layout, const IndexShape& shape);
  /// What a fetch of this shape is split into. Errors: those of plan_fetch.
  [[nodiscard]] static Result<FetchPlan> plan(const RankGrid& grid, const TableLayout& layout,
                                              const IndexShape& shape, const FetchLimits& limits,
                                              const EngramOptions& options,
                                              std::vector<PlanStep>* steps = nullptr);

 private:
  EngramTable() = default;
  Transport* transport_ = nullptr;
  std::unique_ptr<TableLayout> layout_;  // routers point at its layers
  WindowLayout window_;
  EngramOptions options_;
  Router router_;
  QueueShape queues_;
  std::unique_ptr<LeaseBook> leases_;
  std::vector<std::vector<ScalePack>> scales_;  // [layers]
};

}  // namespace engram::core
