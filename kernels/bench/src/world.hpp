// Tables, indices and readers of the benchmark.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/bench/bench_fetch.hpp"
#include "engram/kernels/fetch_rows.hpp"
#include "measure.hpp"

namespace engram::bench {

/// Memory freed with its owner.
using Memory = std::shared_ptr<std::byte>;
[[nodiscard]] Memory gpu_memory(int device, Bytes size);
/// Huge pages, touched by `threads` threads, pinned and mapped for every GPU.
[[nodiscard]] Memory host_memory(Bytes size, int threads);

/// Index arrays on one GPU that timed launches go through in turn.
struct IndexSets {
  std::int64_t count = 0;  ///< indices a set
  std::vector<Memory> sets;
  double distinct_share = 1.0;  ///< of the first set
  [[nodiscard]] const std::int64_t* at(int round) const {
    return reinterpret_cast<const std::int64_t*>(
        sets[static_cast<std::size_t>(round) % sets.size()].get());
  }
};
/// Uniform over [first, first + range).
[[nodiscard]] IndexSets uniform_indices(int device, std::int64_t count, std::int64_t first,
                                        std::int64_t range, std::uint64_t seed, int num_sets);
/// Rank r with probability ~ 1 / r, ranks scattered over [first, first + range); range = 2^k.
[[nodiscard]] IndexSets zipf_indices(int device, std::int64_t count, std::int64_t first,
                                     std::int64_t range, std::uint64_t seed, int num_sets);

/// A GPU that fetches: its clock and its room for output.
struct Reader {
  Reader(int device, Bytes output_size, Bytes workspace_size);
  Clock clock;
  Bytes output_size, workspace_size;
  Memory output, workspace, wrong;
};

/// Where a fetch's rows lie.
struct TableView {
  std::vector<const std::byte*> owners;
  std::vector<std::uint64_t> first_words;
  std::int64_t rows_per_owner = 0;
};

/// Arguments of a fetch of sets of `count` indices, 24 entries a token where that divides it.
[[nodiscard]] kernels::GatherRowsArgs make_args(const TableView& table, std::int64_t count,
                                                int row_bytes);
[[nodiscard]] ExpectedWords expected_words(const TableView& table);

enum class How { queued, graph, wall };
[[nodiscard]] const char* name_of(How how);

/// A fetch ready to be launched again and again: indices and destinations rotate.
class Fetch {
 public:
  Fetch(Reader& reader, kernels::GatherRowsArgs args, IndexSets indices, kernels::FetchPlan plan,
        ExpectedWords expected);
  void launch(int round, cudaStream_t stream) const;
  /// Bytes that differ from the table's, over two fetches into poisoned output.
  [[nodiscard]] std::uint64_t count_wrong(const Launcher& launcher) const;
  [[nodiscard]] std::uint64_t count_wrong() const;
  [[nodiscard]] kernels::GatherRowsArgs args(int round) const;
  [[nodiscard]] Reader& reader() const { return *reader_; }
  [[nodiscard]] const kernels::FetchPlan& plan() const { return plan_; }

 private:
  Reader* reader_;
  kernels::GatherRowsArgs args_;
  IndexSets indices_;
  kernels::FetchPlan plan_;
  ExpectedWords expected_;
};

[[nodiscard]] Times time_by(How how, Clock& clock, int repeats, const Launcher& launcher);

}  // namespace engram::bench
