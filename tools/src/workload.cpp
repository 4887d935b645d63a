#include "engram/tools/workload.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <unordered_set>
#include <utility>

#include "ngram.hpp"
#include "random.hpp"
#include "trace_file.hpp"
#include "zipf.hpp"

namespace engram::tools {
namespace {

// Streams that must not meet: what a number is drawn for.
enum class Purpose : std::uint64_t { rows, changes, popularity, start };

Result<std::vector<std::uint32_t>> read_words(const Scenario& scenario) {
  const auto& path = scenario.fetch.text;
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad() || !in.is_open()) {
    return fail(ErrorCode::not_found, scenario.where("fetch.text"), ": text file \"", path,
                "\" cannot be read; accepted: a text with words in it");
  }
  auto words = words_of(text);
  if (words.empty()) {
    return fail(ErrorCode::invalid_argument, scenario.where("fetch.text"), ": \"", path,
                "\" has no words; accepted: a text with words in it");
  }
  return words;
}

}  // namespace

struct Workload::Source {
  FetchSection fetch;
  std::uint64_t seed = 0;
  std::uint32_t ranks = 0, gpus = 0;
  std::vector<std::uint64_t> rows;   // [layers]
  std::vector<std::uint32_t> words;  // ngram
  std::vector<NgramHash> hashes;     // ngram, [layers]
  std::vector<Zipf> zipf;            // zipf, [layers]
  std::vector<Scatter> scatter;      // zipf, [layers]
  std::vector<std::int64_t> trace;   // [lines, layers, entries]

  std::uint32_t tokens_of(Rank rank) const {
    const bool empty =
        rank.value >= gpus || std::find(fetch.empty_ranks.begin(), fetch.empty_ranks.end(), rank) !=
                                  fetch.empty_ranks.end();
    return empty ? 0 : fetch.tokens;
  }

  void draw_layer(Rank rank, std::uint32_t repeat, std::uint32_t layer, std::size_t count,
                  std::vector<std::int64_t>& out) const {
    Stream stream(seed, Purpose::rows, rank.value, repeat, layer);
    switch (fetch.workload) {
      case WorkloadKind::uniform:
        for (std::size_t i = 0; i < count; ++i) {
          out.push_back(static_cast<std::int64_t>(stream.below(rows[layer])));
        }
        return;
      case WorkloadKind::zipf:
        for (std::size_t i = 0; i < count; ++i) {
          out.push_back(static_cast<std::int64_t>(scatter[layer](zipf[layer].draw(stream) - 1)));
        }
        return;
      case WorkloadKind::ngram:
        return read_text(rank, repeat, layer, out);
      case WorkloadKind::trace:
        return replay(rank, layer, out);
    }
  }

  void read_text(Rank rank, std::uint32_t repeat, std::uint32_t layer,
                 std::vector<std::int64_t>& out) const {
    const std::uint64_t size = words.size();
    const std::uint64_t position =
        (rank.value + std::uint64_t{repeat} * gpus) * std::uint64_t{fetch.tokens};
    // A step further each time round, so that no two stretches begin alike.
    const std::uint64_t begin =
        Stream(seed, Purpose::start).below(size) + position + position / size;
    for (std::uint32_t token = 0; token < fetch.tokens; ++token) {
      hashes[layer].append(words, (begin + token) % size, out);
    }
  }

  void replay(Rank rank, std::uint32_t layer, std::vector<std::int64_t>& out) const {
    const std::size_t entries = fetch.entries_per_token;
    const std::size_t first = std::size_t{rank.value} * fetch.tokens;
    for (std::size_t token = first; token < first + fetch.tokens; ++token) {
      const auto at =
          trace.begin() + static_cast<std::ptrdiff_t>((token * rows.size() + layer) * entries);
      out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(entries));
    }
  }

  /// Turns shares of the indices to -1 and to the hot owner's rows.
  void change(Rank rank, std::uint32_t repeat, std::uint32_t layer,
              std::span<std::int64_t> indices) const {
    if (fetch.fraction_empty == 0 && fetch.hot_fraction == 0) return;
    Stream stream(seed, Purpose::changes, rank.value, repeat, layer);
    const std::uint64_t share = (rows[layer] + ranks - 1) / ranks;
    const std::uint64_t begin = std::min(rows[layer], share * fetch.hot_owner.value);
    const std::uint64_t end = std::min(rows[layer], begin + share);
    for (auto& index : indices) {
      const double u = stream.unit();
      const auto hot = stream.next();
      if (u < fetch.fraction_empty) {
        index = -1;
      } else if (u < fetch.fraction_empty + fetch.hot_fraction && begin < end) {
        index = static_cast<std::int64_t>(begin + hot % (end - begin));
      }
    }
  }
};

Workload::Workload(std::unique_ptr<Source> source) : source_(std::move(source)) {}
Workload::Workload(Workload&&) noexcept = default;
Workload& Workload::operator=(Workload&&) noexcept = default;
Workload::~Workload() = default;

Result<Workload> Workload::create(const Scenario& scenario) {
  auto source = std::make_unique<Source>();
  source->fetch = scenario.fetch;
  source->seed = scenario.run.seed;
  source->ranks = scenario.num_ranks();
  source->gpus = scenario.num_gpus();
  source->rows = scenario.table.rows_of_layers(source->ranks);
  const auto& fetch = source->fetch;
  if (fetch.workload == WorkloadKind::ngram &&
      fetch.orders.size() * fetch.heads != fetch.entries_per_token) {
    return fail(ErrorCode::invalid_argument, fetch.orders.size(), " orders x ", fetch.heads,
                " heads are not ", fetch.entries_per_token, " entries a token");
  }
  for (std::uint32_t layer = 0; layer < source->rows.size(); ++layer) {
    const auto rows = source->rows[layer];
    if (fetch.workload == WorkloadKind::ngram) {
      source->hashes.emplace_back(rows, fetch.orders, fetch.heads, layer);
    } else if (fetch.workload == WorkloadKind::zipf) {
      source->zipf.emplace_back(rows, fetch.exponent);
      source->scatter.emplace_back(rows,
                                   Stream(scenario.run.seed, Purpose::popularity, layer).next());
    }
  }
  if (fetch.workload == WorkloadKind::ngram) {
    auto words = read_words(scenario);
    if (!words) return tl::unexpected(words.error());
    source->words = std::move(*words);
  } else if (fetch.workload == WorkloadKind::trace) {
    const TraceShape shape{fetch.entries_per_token, source->rows,
                           std::uint64_t{source->gpus} * fetch.tokens};
    auto trace = read_trace_file(fetch.file, shape);
    if (!trace) return tl::unexpected(trace.error());
    source->trace = std::move(*trace);
  }
  return Workload(std::move(source));
}

IndexBatch Workload::draw(Rank rank, std::uint32_t repeat) const {
  const auto& s = *source_;
  IndexBatch batch{
      static_cast<std::uint32_t>(s.rows.size()), s.tokens_of(rank), s.fetch.entries_per_token, {}};
  if (batch.tokens == 0) return batch;
  const std::size_t count = std::size_t{batch.tokens} * batch.entries;
  batch.rows.reserve(count * batch.layers);
  for (std::uint32_t layer = 0; layer < batch.layers; ++layer) {
    s.draw_layer(rank, repeat, layer, count, batch.rows);
    s.change(rank, repeat, layer, std::span(batch.rows).last(count));
  }
  return batch;
}

IndexBatch without_repeats(const IndexBatch& batch) {
  IndexBatch once = batch;
  const std::size_t size = std::size_t{batch.tokens} * batch.entries;
  for (std::uint32_t l = 0; l < batch.layers; ++l) {
    std::unordered_set<std::int64_t> seen;
    for (std::int64_t& row : std::span(once.rows).subspan(l * size, size)) {
      if (row >= 0 && !seen.insert(row).second) row = -1;
    }
  }
  return once;
}

}  // namespace engram::tools
