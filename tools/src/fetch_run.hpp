// A fetch scenario on any backend: what every rank does, measured and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/core/engram_table.hpp"
#include "engram/model/floors.hpp"
#include "engram/tools/run.hpp"
#include "engram/tools/workload.hpp"
#include "platform.hpp"

namespace engram::tools {

/// The shapes that a scenario's table and fetch come to.
struct FetchSetup {
  core::TableLayout table;
  core::IndexShape largest;
  core::EngramOptions options;  ///< `segment` set when rows are generated
};

/// Errors: invalid_argument with file, line and key.
[[nodiscard]] Result<FetchSetup> make_fetch_setup(const Scenario& scenario,
                                                  const Platform& platform);

/// The key that an error of plan_fetch speaks of: "qps = 500; ..." is fetch.qps.
[[nodiscard]] std::string plan_key(const Error& error);

/// One rank, one repeat.
struct RankSample {
  Nanos start{}, issued{}, end{};
  core::IssueCounts counts;
  std::uint64_t reads[core::kNumPaths] = {};
  Bytes payload;
  std::uint64_t doorbells = 0;
  bool ended = false;  ///< its rows are all here
};

/// Reads of one rank from one owner over the network, repeat 0.
struct PeerReads {
  Rank reader, owner;
  std::uint64_t reads = 0;
};

struct FetchMeasurements {
  std::vector<std::vector<RankSample>> samples;  ///< [repeats][ranks]
  std::vector<std::uint64_t> served;             ///< [ranks], reads that its NIC answers, repeat 0
  std::vector<PeerReads> pairs;                  ///< pairs that read, by reader; repeat 0
  core::FetchPlan plan;
  std::optional<Nanos> failed_at;  ///< when the first rank gave up
};

/// Rows as they arrive, for runs that do not keep them.
class StreamCheck;

class FetchRun {
 public:
  /// `stream`: rows are checked as they arrive. The workload and the setup outlive it.
  FetchRun(const Scenario& scenario, const FetchSetup& setup, const Workload& workload,
           std::uint32_t num_ranks, bool stream, RunObserver& observer);
  /// Told with true when the first rank starts a repeat, with false when the last has ended it; of
  /// backends that run all ranks in this thread.
  void set_measured(std::shared_ptr<std::function<void(bool)>> measured) {
    measured_stretch_ = std::move(measured);
  }
  ~FetchRun();

  /// What each rank runs. Errors: wrong_bytes naming layer, token and slot; those of the calls.
  [[nodiscard]] Result<void> rank_main(core::Transport& transport);
  [[nodiscard]] bool row_arrived(Rank rank, std::uint64_t offset, std::span<const std::byte> row);

  [[nodiscard]] const FetchMeasurements& measured() const { return measured_; }
  /// Where each rank is a process of its own: `rank`'s samples as bytes, and taking in those of
  /// all, by rank. Errors: invalid_argument naming a rank whose block has another size.
  [[nodiscard]] std::vector<std::byte> samples_of(Rank rank) const;
  [[nodiscard]] Result<void> take_samples(const std::vector<std::vector<std::byte>>& by_rank);
  [[nodiscard]] const bool& tracing() const { return tracing_; }

 private:
  [[nodiscard]] Result<void> all_fetches(core::Transport& transport);
  [[nodiscard]] Result<void> write_rows(core::EngramTable& table, Rank rank);
  [[nodiscard]] Result<void> one_fetch(core::EngramTable& table, core::Transport& transport,
                                       std::uint32_t repeat);
  [[nodiscard]] Result<void> check_rows(const core::EngramTable& table, const core::Fetch& fetch,
                                        const IndexBatch& batch, const IndexBatch& read, Rank rank);
  void mark_measured(bool begins);
  void count_served(const core::EngramTable& table, const IndexBatch& batch);

  const Scenario& scenario_;
  const FetchSetup& setup_;
  const Workload& workload_;
  RunObserver& observer_;
  FetchMeasurements measured_;
  std::unique_ptr<StreamCheck> stream_;
  std::mutex shared_;  ///< of what ranks that are threads write: plan, served, ended_, tracing_
  std::uint32_t ended_ = 0, started_ = 0, landed_ = 0;  ///< fetches of ranks
  std::shared_ptr<std::function<void(bool)>> measured_stretch_;
  bool tracing_ = false;
};

}  // namespace engram::tools
