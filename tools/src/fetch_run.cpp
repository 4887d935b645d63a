#include "fetch_run.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "engram/core/row_pattern.hpp"
#include "random.hpp"

namespace engram::tools {
namespace {

/// Tables up to this size are written; larger ones are generated, row by row, when they are read.
constexpr Bytes kMostStored = kGiB;

core::RowPattern pattern_of(const Scenario& scenario) { return {scenario.run.seed}; }

/// The bytes of any rank's segment, computed instead of kept.
core::SegmentFunction generated_rows(const core::TableLayout& table, core::RowPattern pattern) {
  return [table, pattern](Rank owner, std::uint64_t offset, std::span<std::byte> out) {
    std::uint32_t layer = table.num_layers() - 1;
    while (layer > 0 && table.place(LayerIndex{layer}).base_offset > offset) --layer;
    const core::LayerPlace& place = table.place(LayerIndex{layer});
    const auto first = core::global_row(table, LayerIndex{layer}, owner, offset);
    for (std::uint64_t at = 0; at < out.size(); at += place.row_bytes) {
      pattern.fill(LayerIndex{layer}, static_cast<std::uint64_t>(first) + at / place.row_bytes,
                   out.subspan(at, std::min<std::size_t>(place.row_bytes, out.size() - at)));
    }
  };
}

/// Puts every row of `rows` that `read` leaves out where its first place has it: in `got`, rows of
/// `row` bytes.
void scatter_repeats(std::span<const std::int64_t> rows, std::span<const std::int64_t> read,
                     std::uint64_t row, std::vector<std::byte>& got) {
  std::unordered_map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    if (read[i] == rows[i]) {
      first.emplace(rows[i], i);
    } else {
      std::memcpy(&got[i * row], &got[first.at(rows[i]) * row], row);
    }
  }
}

std::vector<std::uint32_t> wait_order(const Scenario& scenario, std::uint32_t layers, Rank rank,
                                      std::uint32_t repeat) {
  std::vector<std::uint32_t> order(layers);
  std::iota(order.begin(), order.end(), 0u);
  if (scenario.fetch.wait_order == WaitOrder::reverse) std::ranges::reverse(order);
  if (scenario.fetch.wait_order == WaitOrder::shuffled) {
    Stream stream(scenario.run.seed, rank.value, repeat, 0x0a17);
    for (std::uint32_t i = layers; i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  }
  return order;
}

}  // namespace

/// Per rank: where its rows lie and which they are, so that an arriving row names its index.
class StreamCheck {
 public:
  StreamCheck(std::uint32_t num_ranks, core::RowPattern pattern)
      : pattern_(pattern), ranks_(num_ranks) {}

  void expect(Rank rank, const core::EngramTable& table, const core::Fetch& fetch,
              IndexBatch batch) {
    Expected& expected = ranks_[rank.value];
    expected.batch = std::move(batch);
    expected.layers.clear();
    for (std::uint32_t l = 0; l < expected.batch.layers; ++l) {
      expected.layers.push_back({fetch.row_offset(LayerIndex{l}).count,
                                 table.layout().place(LayerIndex{l}).row_bytes,
                                 expected.batch.layer(LayerIndex{l})});
    }
    expected.missing = std::ranges::count_if(expected.batch.rows, [](auto r) { return r >= 0; });
  }

  bool arrived(Rank rank, std::uint64_t offset, std::span<const std::byte> row) {
    Expected& expected = ranks_[rank.value];
    --expected.missing;
    auto layer = static_cast<std::uint32_t>(expected.layers.size()) - 1;
    while (layer > 0 && expected.layers[layer].base > offset) --layer;
    const Expected::Layer& in = expected.layers[layer];
    const std::uint64_t i = (offset - in.base) / in.row_bytes;
    return i < in.rows.size() && row.size() == in.row_bytes &&
           pattern_.matches(LayerIndex{layer}, in.rows[i], row);
  }

  [[nodiscard]] std::int64_t missing(Rank rank) const { return ranks_[rank.value].missing; }

 private:
  struct Expected {
    struct Layer {
      std::uint64_t base = 0, row_bytes = 0;  // of its first row; of each
      std::span<const std::int64_t> rows;
    };
    IndexBatch batch;
    std::vector<Layer> layers;
    std::int64_t missing = 0;
  };
  core::RowPattern pattern_;
  std::vector<Expected> ranks_;
};

Result<FetchSetup> make_fetch_setup(const Scenario& scenario, const Platform& platform) {
  const TableSection& section = scenario.table;
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view accepted) {
    return fail(ErrorCode::invalid_argument, scenario.where(key), ": ", value,
                " is not available on the ", scenario.run.backend,
                " backend; accepted: ", accepted);
  };
  if (section.placement == Placement::tiered) {
    return refuse("table.placement", "tiered", "host, gpu");
  }
  if (section.scales == ScaleStore::sharded) {
    return refuse("table.scales", "sharded", "replicated, in_row");
  }

  std::vector<core::LayerShape> layers;
  for (const std::uint64_t rows : section.rows_of_layers(platform.grid.num_ranks())) {
    layers.push_back({rows, section.row_bytes(), section.packs()});
  }
  auto table = core::TableLayout::create(std::move(layers), platform.grid.num_ranks());
  if (!table) return at_key(scenario, "table", table.error());

  core::EngramOptions options;
  options.placement =
      section.placement == Placement::gpu ? core::Placement::gpu : core::Placement::host;
  options.compat = scenario.run.compat;
  options.sizing = scenario.run.compat ? core::SizingRule::older : core::SizingRule::newer;
  options.overrides = {scenario.fetch.qps, scenario.fetch.depth, scenario.fetch.flush_depth,
                       scenario.fetch.sms};
  options.largest = {table->num_layers(), scenario.fetch.tokens, scenario.fetch.entries_per_token};
  const Bytes all = platform.grid.num_ranks() * table->segment_bytes();
  const bool gpu = scenario.run.backend == "nccl";
  // There the planner reads rows once by itself, where that pays.
  if (gpu && scenario.fetch.dedup) return refuse("fetch.dedup", "true", "false");
  if (!gpu && scenario.fetch.assist_threads > 0) {
    return refuse("fetch.assist_threads", std::to_string(scenario.fetch.assist_threads), "0");
  }
  // A GPU's loads need memory.
  if (gpu && section.contents == RowContents::generated) {
    return refuse("table.contents", "generated", "auto, stored");
  }
  const bool generated =
      !gpu && (section.contents == RowContents::generated ||
               (section.contents == RowContents::automatic && all > kMostStored));
  if (generated) options.segment = generated_rows(*table, pattern_of(scenario));
  const core::IndexShape largest = options.largest;
  return FetchSetup{std::move(*table), largest, std::move(options)};
}

std::string plan_key(const Error& error) {
  return "fetch." + error.message.substr(0, error.message.find(' '));
}

FetchRun::FetchRun(const Scenario& scenario, const FetchSetup& setup, const Workload& workload,
                   std::uint32_t num_ranks, bool stream, RunObserver& observer)
    : scenario_(scenario), setup_(setup), workload_(workload), observer_(observer) {
  measured_.samples.assign(scenario.run.repeat, std::vector<RankSample>(num_ranks));
  measured_.served.assign(num_ranks, 0);
  if (stream) stream_ = std::make_unique<StreamCheck>(num_ranks, pattern_of(scenario));
}
FetchRun::~FetchRun() = default;

bool FetchRun::row_arrived(Rank rank, std::uint64_t offset, std::span<const std::byte> row) {
  return stream_->arrived(rank, offset, row) || !scenario_.run.check;
}

Result<void> FetchRun::rank_main(core::Transport& transport) {
  auto done = all_fetches(transport);
  if (!done && !measured_.failed_at) measured_.failed_at = transport.now();
  return done;
}

Result<void> FetchRun::all_fetches(core::Transport& transport) {
  const Nanos limit = scenario_.run.deadline;
  auto table = core::EngramTable::create(transport, setup_.table, setup_.options);
  if (!table) return tl::unexpected(table.error());
  if (!setup_.options.segment) {
    if (auto written = write_rows(*table, transport.rank()); !written) return written;
  }
  for (std::uint32_t repeat = 0; repeat < scenario_.run.repeat; ++repeat) {
    if (auto all = transport.barrier(limit); !all) return all;
    {
      const std::lock_guard lock(shared_);
      tracing_ = repeat == 0;
    }
    if (auto done = one_fetch(*table, transport, repeat); !done) {
      return within(done.error(), "repeat ", repeat);
    }
    const std::lock_guard lock(shared_);
    ++ended_;
    if (observer_.on_progress && ended_ % transport.grid().num_ranks() == 0) {
      observer_.on_progress(ended_ / transport.grid().num_ranks(), scenario_.run.repeat);
    }
  }
  return transport.barrier(limit);
}

Result<void> FetchRun::write_rows(core::EngramTable& table, Rank rank) {
  const core::RowPattern pattern = pattern_of(scenario_);
  for (std::uint32_t l = 0; l < table.layout().num_layers(); ++l) {
    const LayerIndex layer{l};
    const auto run = table.layout().rows_of(layer, rank);
    const std::uint64_t row = table.layout().place(layer).row_bytes;
    std::vector<std::byte> bytes(run.count * row);
    for (std::uint64_t i = 0; i < run.count; ++i) {
      pattern.fill(layer, run.first + i, std::span(bytes).subspan(i * row, row));
    }
    if (auto written = table.write(layer, bytes, scenario_.run.deadline); !written) return written;
  }
  return {};
}

Result<void> FetchRun::one_fetch(core::EngramTable& table, core::Transport& transport,
                                 std::uint32_t repeat) {
  const Rank rank = transport.rank();
  const Nanos limit = scenario_.run.deadline;
  const IndexBatch batch = workload_.draw(rank, repeat);
  std::optional<IndexBatch> once;
  if (scenario_.fetch.dedup) once = without_repeats(batch);
  const IndexBatch& read = once ? *once : batch;
  const core::IndexShape shape{batch.layers, batch.tokens, batch.entries};
  RankSample& sample = measured_.samples[repeat][rank.value];
  if (repeat == 0) count_served(table, read);

  mark_measured(true);
  sample.start = transport.now();
  auto fetch = table.fetch(shape, read.rows);
  if (!fetch) return tl::unexpected(fetch.error());
  if (stream_) stream_->expect(rank, table, *fetch, read);
  {
    const std::lock_guard lock(shared_);
    measured_.plan = fetch->plan();
  }
  auto issued = table.issued(*fetch, limit);
  if (!issued) return tl::unexpected(issued.error());
  sample.issued = transport.now();
  sample.counts = *issued;
  for (std::size_t p = 0; p < core::kNumPaths; ++p) {
    const auto& reads = fetch->reads_by(static_cast<core::Path>(p));
    sample.reads[p] = reads.requests;
    if (static_cast<core::Path>(p) != core::Path::none) sample.payload += reads.bytes;
  }
  for (const std::uint32_t layer : wait_order(scenario_, shape.layers, rank, repeat)) {
    if (auto done = table.wait(*fetch, LayerIndex{layer}, limit); !done) return done;
  }
  sample.end = transport.now();
  sample.ended = true;
  mark_measured(false);
  if (scenario_.run.check) {
    if (auto right = check_rows(table, *fetch, batch, read, rank); !right) return right;
  }
  return table.finish(std::move(*fetch), limit);
}

void FetchRun::mark_measured(bool begins) {
  if (!measured_stretch_ || !*measured_stretch_) return;
  const auto ranks = static_cast<std::uint32_t>(measured_.served.size());
  const bool tells = begins ? started_++ % ranks == 0 : ++landed_ % ranks == 0;
  if (tells) (*measured_stretch_)(begins);
}

std::vector<std::byte> FetchRun::samples_of(Rank rank) const {
  static_assert(std::is_trivially_copyable_v<RankSample>);
  std::vector<std::byte> out(measured_.samples.size() * sizeof(RankSample));
  for (std::size_t r = 0; r < measured_.samples.size(); ++r) {
    std::memcpy(&out[r * sizeof(RankSample)], &measured_.samples[r][rank.value],
                sizeof(RankSample));
  }
  return out;
}

Result<void> FetchRun::take_samples(const std::vector<std::vector<std::byte>>& by_rank) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].size() != measured_.samples.size() * sizeof(RankSample)) {
      return fail(ErrorCode::invalid_argument, "rank ", rank, " gave ", by_rank[rank].size(),
                  " bytes of measurements; another scenario or another build?");
    }
    for (std::size_t r = 0; r < measured_.samples.size(); ++r) {
      std::memcpy(&measured_.samples[r][rank], &by_rank[rank][r * sizeof(RankSample)],
                  sizeof(RankSample));
    }
  }
  return {};
}

Result<void> FetchRun::check_rows(const core::EngramTable& table, const core::Fetch& fetch,
                                  const IndexBatch& batch, const IndexBatch& read, Rank rank) {
  if (stream_) {
    if (stream_->missing(rank) == 0) return {};
    return fail(ErrorCode::wrong_bytes, stream_->missing(rank), " rows did not arrive");
  }
  const core::RowPattern pattern = pattern_of(scenario_);
  for (std::uint32_t l = 0; l < batch.layers; ++l) {
    const LayerIndex layer{l};
    const std::uint64_t row = table.layout().place(layer).row_bytes;
    const auto rows = batch.layer(layer);
    std::vector<std::byte> got(rows.size() * row);
    if (auto taken = table.read(fetch, layer, got); !taken) return taken;
    if (scenario_.fetch.dedup) scatter_repeats(rows, read.layer(layer), row, got);
    for (std::uint64_t i = 0; i < rows.size(); ++i) {
      if (pattern.matches(layer, rows[i], std::span(got).subspan(i * row, row))) continue;
      return fail(ErrorCode::wrong_bytes, "layer ", l, ", token ", i / batch.entries, ", slot ",
                  i % batch.entries, ": the bytes are not those of row ", rows[i]);
    }
  }
  return {};
}

void FetchRun::count_served(const core::EngramTable& table, const IndexBatch& batch) {
  const core::Router& router = table.router();
  std::vector<std::uint64_t> by_owner(measured_.served.size());
  const std::lock_guard lock(shared_);
  for (std::uint32_t l = 0; l < batch.layers; ++l) {
    for (const std::int64_t row : batch.layer(LayerIndex{l})) {
      const core::Place place = router.route(l, row);
      if (place.path != core::Path::rdma) continue;
      ++by_owner[router.grid.rank_of(router.team, router.self, place.peer).value];
    }
  }
  for (std::uint32_t owner = 0; owner < by_owner.size(); ++owner) {
    if (by_owner[owner] == 0) continue;
    measured_.served[owner] += by_owner[owner];
    measured_.pairs.push_back({router.self, Rank{owner}, by_owner[owner]});
  }
}

}  // namespace engram::tools
