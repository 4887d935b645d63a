#include "support/fetch_case.hpp"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <random>

#include "engram/core/row_pattern.hpp"

namespace engram::test {
namespace {

constexpr Nanos kLimit = std::chrono::seconds{10};
constexpr core::RowPattern kPattern{17};

core::TableLayout layout_of(const FetchCase& c) {
  std::vector<core::LayerShape> layers;
  for (const LayerCase& layer : c.layers)
    layers.push_back({layer.rows, Bytes{layer.row_words * 4ull}});
  auto layout = core::TableLayout::create(layers, c.num_ranks());
  require(layout.has_value(), "generated tables are valid");
  return *layout;
}

core::EngramOptions options_of(const FetchCase& c, const core::Defects& defects) {
  core::EngramOptions options;
  options.placement = c.placement();
  options.largest = {static_cast<std::uint32_t>(c.layers.size()), c.tokens, c.entries};
  options.in_flight = c.fetches_in_flight;
  options.compat = c.compat;
  options.sizing = c.older_sizing ? core::SizingRule::older : core::SizingRule::newer;
  options.overrides.qps = c.qps;
  options.overrides.depth = 1u << c.depth_log2;
  options.overrides.flush_depth = std::min(c.flush_depth, 1u << c.depth_log2);
  options.overrides.sms = 2;
  options.defects = defects;
  return options;
}

Result<void> write_rows(core::EngramTable& table, Rank rank) {
  for (std::uint32_t l = 0; l < table.layout().num_layers(); ++l) {
    const LayerIndex layer{l};
    const auto run = table.layout().rows_of(layer, rank);
    const std::uint64_t row = table.layout().place(layer).row_bytes;
    std::vector<std::byte> bytes(run.count * row);
    for (std::uint64_t i = 0; i < run.count; ++i) {
      kPattern.fill(layer, run.first + i, std::span(bytes).subspan(i * row, row));
    }
    if (auto written = table.write(layer, bytes, kLimit); !written) return written;
  }
  return {};
}

Result<void> check_layer(const core::EngramTable& table, const core::Fetch& fetch, LayerIndex layer,
                         std::span<const std::int64_t> indices) {
  const std::uint64_t row = table.layout().place(layer).row_bytes;
  std::vector<std::byte> got(indices.size() * row);
  if (auto read = table.read(fetch, layer, got); !read) return read;
  for (std::uint64_t i = 0; i < indices.size(); ++i) {
    if (kPattern.matches(layer, indices[i], std::span(got).subspan(i * row, row))) continue;
    const auto entries = fetch.shape().entries_per_token;
    return fail(ErrorCode::wrong_bytes, "layer ", layer.value, ", token ", i / entries, ", slot ",
                i % entries, ": not row ", indices[i]);
  }
  return {};
}

Result<void> run_round(core::EngramTable& table, const FetchCase& c, Rank rank,
                       std::uint32_t round) {
  const core::IndexShape shape{static_cast<std::uint32_t>(c.layers.size()), c.tokens, c.entries};
  std::vector<std::vector<std::int64_t>> indices;
  std::vector<core::Fetch> fetches;
  for (std::uint32_t f = 0; f < c.fetches_in_flight; ++f) {
    indices.push_back(c.indices_of(rank, round * c.fetches_in_flight + f));
    auto fetch = table.fetch(shape, indices.back());
    if (!fetch) return tl::unexpected(fetch.error());
    fetches.push_back(std::move(*fetch));
  }
  std::vector<std::uint32_t> order(fetches.size() * shape.layers);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937_64 random(core::mix64(c.seed + rank.value * 977 + round));
  std::ranges::shuffle(order, random);
  // All layers of all fetches land before any is read, so that one that overwrites another shows.
  for (const std::uint32_t at : order) {
    core::Fetch& fetch = fetches[at / shape.layers];
    if (auto done = table.wait(fetch, LayerIndex{at % shape.layers}, kLimit); !done) return done;
  }
  for (const std::uint32_t at : order) {
    const std::uint32_t f = at / shape.layers, layer = at % shape.layers;
    const auto of_layer =
        std::span(indices[f]).subspan(layer * shape.per_layer(), shape.per_layer());
    if (auto ok = check_layer(table, fetches[f], LayerIndex{layer}, of_layer); !ok) return ok;
  }
  for (core::Fetch& fetch : fetches) {
    if (auto done = table.finish(std::move(fetch), kLimit); !done) return done;
  }
  return {};
}

}  // namespace

Result<core::RankGrid> FetchCase::grid() const {
  return core::RankGrid::create(num_ranks(), num_nvlink,
                                hybrid ? core::Mode::hybrid : core::Mode::direct);
}

std::vector<std::int64_t> FetchCase::indices_of(Rank rank, std::uint32_t n) const {
  std::vector<std::int64_t> out;
  const core::TableLayout layout = layout_of(*this);
  std::uint64_t state = core::mix64(seed ^ (std::uint64_t{rank.value} << 32) ^ n);
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    const std::uint64_t rows = layers[l].rows;
    const std::uint64_t hot = std::min(rows, layout.place(LayerIndex{l}).rows_per_rank);
    for (std::uint64_t i = 0; i < std::uint64_t{tokens} * entries; ++i) {
      state = core::mix64(state);
      bool missing = rows == 0 || indices == Indices::all_missing;
      if (indices == Indices::some_missing) missing |= state >> 60 < 5;
      if (indices == Indices::one_rank_only) missing |= rank.value != 0;
      const std::uint64_t range = indices == Indices::hot_owner ? hot : rows;
      out.push_back(missing ? -1 : static_cast<std::int64_t>(state % range));
    }
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const FetchCase& c) {
  out << "seed = " << c.seed << ", domains = " << c.num_rdma << " x " << c.num_nvlink
      << (c.hybrid ? ", hybrid" : ", direct") << (c.gpu_storage ? ", gpu" : ", host")
      << (c.compat ? ", compat" : "") << (c.older_sizing ? ", older sizing" : "") << ", layers = [";
  for (const LayerCase& l : c.layers) out << l.rows << "x" << l.row_words * 4 << "B ";
  return out << "], tokens = " << c.tokens << ", entries = " << c.entries
             << ", indices = " << static_cast<int>(c.indices) << ", qps = " << c.qps
             << ", depth = " << (1u << c.depth_log2) << ", flush_depth = " << c.flush_depth
             << ", reads_in_flight = " << c.reads_in_flight << ", first_count = " << c.first_count
             << (c.flush_rings ? ", flush rings" : "")
             << ", fetches_in_flight = " << c.fetches_in_flight << ", rounds = " << c.rounds;
}

Result<core::BackendStats> run_case(core::Backend& backend, const FetchCase& c,
                                    const core::Defects& defects) {
  return backend.run([&](core::Transport& transport) -> Result<void> {
    const core::TableLayout layout = layout_of(c);
    auto table = core::EngramTable::create(transport, layout, options_of(c, defects));
    if (!table) return tl::unexpected(table.error());
    if (auto written = write_rows(*table, transport.rank()); !written) return written;
    for (std::uint32_t round = 0; round < c.rounds; ++round) {
      if (auto ok = run_round(*table, c, transport.rank(), round); !ok) {
        return within(ok.error(), "round ", round);
      }
    }
    return transport.barrier(kLimit);
  });
}

}  // namespace engram::test
