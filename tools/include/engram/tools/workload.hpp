// Which rows each rank asks for: uniform, Zipf, n-gram hashes of a text, or a recorded trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

/// [layers, tokens, entries], global rows of each layer's table; -1 = no row.
struct IndexBatch {
  std::uint32_t layers = 0, tokens = 0, entries = 0;
  std::vector<std::int64_t> rows;

  [[nodiscard]] std::span<const std::int64_t> layer(LayerIndex l) const {
    const std::size_t size = std::size_t{tokens} * entries;
    return std::span(rows).subspan(l.value * size, size);
  }
};

/// `batch` with -1 in the place of each row that its layer has named before: what is read when a
/// row is read once.
[[nodiscard]] IndexBatch without_repeats(const IndexBatch& batch);

/// Draws index batches. Immutable; one object serves all ranks and repeats.
class Workload {
 public:
  /// Reads the text or trace file that `scenario.fetch` names.
  /// Errors: not_found, or invalid_argument with file, line and what is accepted.
  [[nodiscard]] static Result<Workload> create(const Scenario& scenario);

  Workload(Workload&&) noexcept;
  Workload& operator=(Workload&&) noexcept;
  ~Workload();

  /// What `rank` fetches in `repeat`: the same for the same scenario and seed. Ranks in
  /// empty_ranks and ranks of memory nodes get 0 tokens. Each rank and repeat reads another
  /// stretch of a text; a trace is cut in `tokens` lines a rank, from the start in every repeat.
  [[nodiscard]] IndexBatch draw(Rank rank, std::uint32_t repeat = 0) const;

 private:
  struct Source;
  explicit Workload(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace engram::tools
