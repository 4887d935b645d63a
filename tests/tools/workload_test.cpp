// Workloads: in range, the same for the same seed, and distributed as they say.
#include "engram/tools/workload.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "ngram.hpp"
#include "support/scratch_folder.hpp"
#include "zipf.hpp"

namespace engram::tools {
namespace {

constexpr const char* kText = ENGRAM_SOURCE "/scenarios/text/us-founding.txt";

Scenario small(WorkloadKind kind) {
  Scenario s;
  s.cluster.nodes = 2;
  s.cluster.gpus_per_node = 2;
  s.fetch.workload = kind;
  s.fetch.tokens = 100;
  s.fetch.entries_per_token = 16;
  s.fetch.text = kText;
  s.table.entries_per_rank = {1000, 1009};
  return s;
}

Workload make(const Scenario& s) {
  auto made = Workload::create(s);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// Any shape, any kind: shapes hold, rows are in their layer's table, a second draw is the same.
RC_GTEST_PROP(Workload, StaysInRangeAndRepeats, ()) {
  const auto kind =
      *rc::gen::element(WorkloadKind::uniform, WorkloadKind::zipf, WorkloadKind::ngram);
  auto s = small(kind);
  s.cluster.nodes = *rc::gen::inRange<std::uint32_t>(1, 5);
  s.run.seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  s.fetch.tokens = *rc::gen::inRange<std::uint32_t>(0, 40);
  s.fetch.exponent = *rc::gen::element(0.0, 0.5, 1.0, 1.2, 3.0);
  s.fetch.fraction_empty = *rc::gen::element(0.0, 0.3, 1.0);
  s.table.entries_per_rank =
      *rc::gen::container<std::vector<std::uint64_t>>(3, rc::gen::inRange<std::uint64_t>(1, 5000));
  if (kind == WorkloadKind::ngram) {
    s.fetch.heads = *rc::gen::inRange<std::uint32_t>(1, 9);
    s.fetch.entries_per_token = 2 * s.fetch.heads;
  }
  const Rank rank{*rc::gen::inRange<std::uint32_t>(0, s.num_ranks())};
  const auto repeat = *rc::gen::inRange<std::uint32_t>(0, 3);
  const auto workload = make(s);
  const auto batch = workload.draw(rank, repeat);
  RC_ASSERT(batch.layers == 3u && batch.tokens == s.fetch.tokens);
  RC_ASSERT(batch.rows.size() == std::size_t{3} * batch.tokens * batch.entries);
  const auto counts = s.table.rows_of_layers(s.num_ranks());
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    for (const auto row : batch.layer(LayerIndex{layer})) {
      RC_ASSERT(row >= -1 && row < static_cast<std::int64_t>(counts[layer]));
      RC_ASSERT(row >= 0 || s.fetch.fraction_empty > 0);
    }
  }
  RC_ASSERT(make(s).draw(rank, repeat).rows == batch.rows);
  RC_CLASSIFY(kind == WorkloadKind::ngram, "ngram");
}

// What is left is every row of a layer once, each in its first place.
RC_GTEST_PROP(Workload, WithoutRepeatsEachRowOfALayerIsLeftOnce, ()) {
  IndexBatch batch{2, *rc::gen::inRange<std::uint32_t>(0, 20), 3, {}};
  batch.rows = *rc::gen::container<std::vector<std::int64_t>>(
      std::size_t{6} * batch.tokens, rc::gen::inRange<std::int64_t>(-1, 12));
  const IndexBatch once = without_repeats(batch);
  RC_ASSERT(once.rows.size() == batch.rows.size());
  for (std::uint32_t l = 0; l < 2; ++l) {
    std::set<std::int64_t> seen{-1};
    for (std::size_t i = 0; i < batch.layer(LayerIndex{l}).size(); ++i) {
      const auto row = batch.layer(LayerIndex{l})[i];
      RC_ASSERT(once.layer(LayerIndex{l})[i] == (seen.insert(row).second ? row : -1));
    }
  }
}

TEST(Workload, RanksRepeatsAndSeedsDiffer) {
  for (const auto kind : {WorkloadKind::uniform, WorkloadKind::zipf, WorkloadKind::ngram}) {
    auto s = small(kind);
    const auto workload = make(s);
    std::set<std::vector<std::int64_t>> seen;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      for (std::uint32_t repeat = 0; repeat < 3; ++repeat) {
        seen.insert(workload.draw(Rank{rank}, repeat).rows);
      }
    }
    s.run.seed = 2;
    seen.insert(make(s).draw(Rank{0}).rows);
    EXPECT_EQ(seen.size(), 13u) << name_of(kind);
  }
}

// Frequencies follow rank^-exponent: the slope of log frequency over log rank.
TEST(Zipf, FrequencySlopeIsTheExponent) {
  for (const double exponent : {0.6, 1.0, 1.4}) {
    const Zipf zipf(384'006'168, exponent);
    Stream stream(1);
    std::vector<double> buckets(14);  // by power of two
    constexpr int kDraws = 400'000;
    for (int i = 0; i < kDraws; ++i) {
      const auto k = zipf.draw(stream);
      ASSERT_GE(k, 1u);
      ASSERT_LE(k, 384'006'168u);
      const auto bucket = static_cast<std::size_t>(std::log2(double(k)));
      if (bucket < buckets.size()) buckets[bucket] += 1;
    }
    // Against the exact masses of 2^b <= k < 2^(b+1), as ratios to the last bucket's.
    std::vector<double> exact(buckets.size());
    for (std::uint64_t k = 1; k < (1u << buckets.size()); ++k) {
      exact[static_cast<std::size_t>(std::log2(double(k)))] += std::pow(double(k), -exponent);
    }
    const double seen_sum = std::accumulate(buckets.begin(), buckets.end(), 0.0);
    const double exact_sum = std::accumulate(exact.begin(), exact.end(), 0.0);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const double expected = exact[b] / exact_sum * seen_sum;
      EXPECT_NEAR(buckets[b], expected, 6 * std::sqrt(expected) + 1)
          << "exponent " << exponent << " bucket " << b;
    }
  }
}

RC_GTEST_PROP(Scatter, IsABijection, ()) {
  const auto n = *rc::gen::inRange<std::uint64_t>(1, 3000);
  const Scatter scatter(n, *rc::gen::arbitrary<std::uint64_t>());
  std::set<std::uint64_t> images;
  for (std::uint64_t i = 0; i < n; ++i) {
    RC_ASSERT(scatter(i) < n);
    images.insert(scatter(i));
  }
  RC_ASSERT(images.size() == n);
}

TEST(Workload, PopularRowsLieOnAllOwners) {
  auto s = small(WorkloadKind::zipf);
  s.fetch.exponent = 1.2;
  s.fetch.tokens = 2000;
  const auto batch = make(s).draw(Rank{0});
  std::map<std::int64_t, int> reads_of_owner;
  for (const auto row : batch.layer(LayerIndex{0})) ++reads_of_owner[row / 1000];
  EXPECT_EQ(reads_of_owner.size(), 4u);
  for (const auto& [owner, reads] : reads_of_owner) {
    EXPECT_GT(reads, 1000) << "owner " << owner;
  }
}

TEST(Words, AreFoldedAndCutAtPunctuation) {
  EXPECT_EQ(words_of("We the People, the PEOPLE: Nature's 'we' 1787"),
            (std::vector<std::uint32_t>{0, 1, 2, 1, 2, 3, 0, 4}));
  EXPECT_TRUE(words_of(" ,.'\n").empty());
}

// The shipped text is large enough for the quickstart's 16 ranks x 512 tokens without repeating.
TEST(Words, OfTheShippedText) {
  std::ifstream in(kText);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto words = words_of(text);
  EXPECT_GT(words.size(), 16u * 512u);
  EXPECT_GT(*std::max_element(words.begin(), words.end()), 1000u);
}

TEST(Ngram, SameWordsSameRowsAndEachHeadItsRegion) {
  const NgramHash hash(100'000, {2, 3}, 4, 0);
  const std::vector<std::uint32_t> words{5, 6, 7, 9, 5, 6, 7, 8, 6, 7};
  std::vector<std::int64_t> at2, at6, at9;
  hash.append(words, 2, at2);
  hash.append(words, 6, at6);
  hash.append(words, 9, at9);
  EXPECT_EQ(at2, at6);                                                    // "5 6 7" both
  EXPECT_TRUE(std::equal(at2.begin(), at2.begin() + 4, at9.begin()));     // "6 7" both
  EXPECT_FALSE(std::equal(at2.begin() + 4, at2.end(), at9.begin() + 4));  // "8 6 7"
  for (std::size_t head = 0; head < at2.size(); ++head) {
    EXPECT_EQ(at2[head] / 12'500, static_cast<std::int64_t>(head));
  }
}

TEST(Ngram, Primes) {
  EXPECT_EQ(prime_at_most(16'000'257), 16'000'253u);
  std::vector<std::uint64_t> primes;
  for (std::uint64_t n = 0; n < 30; ++n) {
    if (is_prime(n)) primes.push_back(n);
  }
  EXPECT_EQ(primes, (std::vector<std::uint64_t>{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}));
}

TEST(Workload, EmptyRanksAndMemoryRanksHaveNoTokens) {
  auto s = small(WorkloadKind::uniform);
  s.cluster.memory_nodes = 1;
  s.fetch.empty_ranks = {Rank{1}};
  const auto workload = make(s);
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    const bool empty = rank == 1 || rank >= 4;
    EXPECT_EQ(workload.draw(Rank{rank}).tokens, empty ? 0u : 100u) << rank;
  }
}

TEST(Workload, SharesOfHotOwnerAndOfNoRow) {
  auto s = small(WorkloadKind::uniform);
  s.fetch.tokens = 2000;
  s.fetch.hot_fraction = 0.5;
  s.fetch.hot_owner = Rank{3};
  s.fetch.fraction_empty = 0.2;
  const auto batch = make(s).draw(Rank{0});
  const auto layer = batch.layer(LayerIndex{1});
  double hot = 0, none = 0;
  for (const auto row : layer) {
    hot += row / 1009 == 3;
    none += row == -1;
  }
  const auto size = static_cast<double>(layer.size());
  EXPECT_NEAR(none / size, 0.2, 0.01);
  EXPECT_NEAR(hot / size, 0.5 + 0.3 / 4, 0.015);
}

Scenario traced(const std::string& path) {
  auto s = small(WorkloadKind::trace);
  s.cluster.nodes = 1;  // 2 ranks
  s.fetch.file = path;
  s.fetch.tokens = 2;
  s.fetch.entries_per_token = 2;
  s.table.entries_per_rank = {50, 60};
  return s;
}

TEST(Trace, MayBeginWithAByteOrderMark) {
  const ScratchFolder folder;
  const auto file = folder.write("trace",
                                 "\xEF\xBB\xBF"
                                 "1 2\n3 4\n5 6\n7 8\n");
  const auto workload = make(traced(file));
  EXPECT_EQ(workload.draw(Rank{0}).rows, (std::vector<std::int64_t>{1, 2, 3, 4, 1, 2, 3, 4}));
}

TEST(Trace, IsCutByRank) {
  const ScratchFolder folder;
  const auto file = folder.write("trace", "# token a line\n1 2\n3,-1\n\n10 11 20 21\n99 0\n");
  const auto workload = make(traced(file));
  EXPECT_EQ(workload.draw(Rank{0}).rows, (std::vector<std::int64_t>{1, 2, 3, -1, 1, 2, 3, -1}));
  EXPECT_EQ(workload.draw(Rank{1}, 5).rows,
            (std::vector<std::int64_t>{10, 11, 99, 0, 20, 21, 99, 0}));
}

TEST(Trace, NamesFileLineAndWhatIsAccepted) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 2\n3 4\n5 6\n7",
       ":4: the file is truncated: its last line has no end; accepted: whole "
       "lines"},
      {"1 2\n3 4\n5 6\n", ":3: the file ends after 3 tokens; accepted: at least 4"},
      {"1 2\n3 4 5\n", ":2: 3 rows; accepted: 2 (every layer alike) or 4 (2 layers x 2)"},
      {"1 2\n3 x4\n", ":2:3: \"x4\" is no integer; accepted: rows from 0, or -1 for none"},
      {"1 2\n3 4.5\n", ":2:3: \"4.5\" is no integer; accepted: rows from 0, or -1 for none"},
      {"1 99999999999999999999\n",
       ":1:3: \"99999999999999999999\" is too big; accepted: rows from 0, or -1 for none"},
      {"1 100\n", ":1: row 100 of 100 in layer 0; accepted: -1 to 99"},
      {"1 -2\n", ":1: row -2 of 100 in layer 0; accepted: -1 to 99"},
  };
  for (const auto& [text, error] : cases) {
    const ScratchFolder folder;
    const auto file = folder.write("trace", text);
    const auto made = Workload::create(traced(file));
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().message, file + error);
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace engram::tools
