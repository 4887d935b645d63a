// Rows that change while they are read, all through the plugin: the own ones and those of several
// peers in one batch, by several warps that share a context.
#include "engram/core/versioned_protocol.hpp"

#include <algorithm>

#include "engram/core/row_pattern.hpp"
#include "plugin_gin.hpp"

namespace engram::gin_plugin::testing {
namespace {

constexpr std::uint64_t kRowsEach = 8, kReads = 96;  // few rows: readers are to meet writers
constexpr std::uint32_t kWords = 40, kWarps = 3, kRowBytes = kWords * 4;
constexpr std::uint64_t kStaging = 16 << 10, kRowsAt = 24 << 10;
constexpr std::uint64_t kBefore = kRowsAt + kReads * kRowBytes, kAfter = kBefore + 8 * kReads;
constexpr core::Deadline kDeadline{20'000'000'000ull};

std::uint32_t word_of(std::uint64_t row, std::uint64_t version, std::uint32_t word) {
  return static_cast<std::uint32_t>(core::mix64(row * 1009 + version)) + word;
}

struct Sink {
  std::vector<core::WaitError> errors;
  std::vector<core::ChangingRow> changing;
  std::uint64_t again = 0;
  void report(const core::WaitError& error) { errors.push_back(error); }
  void report_changing(const core::ChangingRow& row) { changing.push_back(row); }
  void count_again(std::uint32_t rows) { again += rows; }
};

/// One rank: its rows, the thread that rewrites them and the warps that read everybody's.
class Player {
 public:
  explicit Player(Member& m) : m_(m) {
    const std::uint64_t rows = kRowsEach * m.num_ranks;
    table_ = *core::TableLayout::create({{rows, Bytes{kRowBytes}}, {rows, core::kVersionBytes}},
                                        m.num_ranks);
    const auto grid = *core::RankGrid::create(m.num_ranks, 1, core::Mode::direct);
    const auto window = *core::WindowLayout::create(
        grid, core::Placement::gpu, table_.segment_bytes(), Bytes{kReads * (kRowBytes + 16)});
    args_.reads.router = *core::make_router(grid, Rank{m.rank}, core::Placement::gpu, table_,
                                            window, {}, /*compat=*/true);
    args_.reads = {args_.reads.router, 0, 1, nullptr, kReads, kRowsAt, kBefore, kAfter};
    args_.self = Rank{m.rank};
    args_.grid = grid;
    args_.deadline = kDeadline;
    require(table_.segment_bytes().count <= kStaging, "the table ends before the staging");
    for (std::uint64_t i = 0; i < kRowsEach; ++i) store(own(i), 2, place(0, own(i)));
    for (std::uint64_t i = 0; i < kRowsEach; ++i) {
      const std::uint64_t version = 2;
      std::memcpy(m_.memory.get() + place(1, own(i)), &version, 8);
    }
  }

  /// Rewrites the own rows `passes` times, or until `stop`, each in two puts through context 1.
  void write(std::uint64_t passes, const std::atomic<bool>& stop) {
    const PluginGin gin(m_, 1);
    for (const std::uint64_t end = pass_ + passes; pass_ < end && !stop;) {
      const std::uint64_t pass = ++pass_;
      for (std::uint64_t i = 0; i < kRowsEach; ++i) {
        store(own(i), 2 * pass + 2, kStaging);
        const auto status = core::put_versioned(
            gin, core::Team::world, m_.rank, {}, place(1, own(i)), 2 * pass + 2, kDeadline, [&] {
              constexpr std::uint32_t kHalf = kRowBytes / 2;
              const std::uint64_t to = place(0, own(i));
              gin.put(core::Team::world, m_.rank, {}, to, {}, kStaging, kHalf, core::Ring::now);
              gin.put(core::Team::world, m_.rank, {}, to + kHalf, {}, kStaging + kHalf, kHalf,
                      core::Ring::now);
            });
        ASSERT_EQ(status, core::WaitStatus::ok);
      }
    }
  }

  /// All warps read once, at most `attempts` times a row.
  [[nodiscard]] Sink read(std::uint64_t seed, std::uint32_t attempts) {
    indices_.resize(kReads);
    for (auto& index : indices_) {
      seed = core::mix64(seed);
      index =
          seed % 17 == 0 ? -1 : static_cast<std::int64_t>(seed / 32 % (kRowsEach * m_.num_ranks));
    }
    args_.reads.indices = indices_.data();
    args_.max_attempts = attempts;
    std::array<Sink, kWarps> sinks;
    std::vector<std::thread> warps;
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      warps.emplace_back([&, w] {
        const PluginGin gin(m_, 0);
        OneThreadWarp warp;
        core::read_versioned(gin, warp, args_, w, kWarps, sinks[w]);
      });
    }
    for (auto& warp : warps) warp.join();
    Sink all;
    for (const Sink& sink : sinks) {
      all.errors.insert(all.errors.end(), sink.errors.begin(), sink.errors.end());
      all.changing.insert(all.changing.end(), sink.changing.begin(), sink.changing.end());
      all.again += sink.again;
    }
    return all;
  }

  /// Each read is its row in the version it tells; zeros for -1 and what was given up.
  void check(const Sink& sink) const {
    ASSERT_TRUE(sink.errors.empty()) << core::describe(sink.errors.front());
    for (std::uint64_t i = 0; i < kReads; ++i) {
      const bool none = indices_[i] < 0 || std::ranges::any_of(sink.changing, [&](const auto& row) {
                          return row.read == i;
                        });
      std::uint64_t version = 0;
      std::memcpy(&version, m_.memory.get() + kBefore + 8 * i, 8);
      for (std::uint32_t w = 0; w < kWords; ++w) {
        std::uint32_t word = 0;
        std::memcpy(&word, m_.memory.get() + kRowsAt + i * kRowBytes + 4 * w, 4);
        const auto row = static_cast<std::uint64_t>(indices_[i]);
        ASSERT_EQ(word, none ? 0 : word_of(row, version, w))
            << "rank " << m_.rank << ", read " << i << ", row " << indices_[i] << ", version "
            << version << ", word " << w;
      }
    }
  }

 private:
  [[nodiscard]] std::uint64_t own(std::uint64_t i) const { return m_.rank * kRowsEach + i; }
  [[nodiscard]] std::uint64_t place(std::uint32_t layer, std::uint64_t row) const {
    return args_.reads.router.route(layer, static_cast<std::int64_t>(row)).owner_offset;
  }
  void store(std::uint64_t row, std::uint64_t version, std::uint64_t at) {
    for (std::uint32_t w = 0; w < kWords; ++w) {
      const std::uint32_t word = word_of(row, version, w);
      std::memcpy(m_.memory.get() + at + 4 * w, &word, 4);
    }
  }

  Member& m_;
  core::TableLayout table_;
  core::VersionedArgs<PluginGin> args_;
  std::vector<std::int64_t> indices_;
  std::uint64_t pass_ = 0;  ///< the writer's last one
};

class Versions : public Ways {};

// The own rows go through the network too, as with a router made for compat.
TEST_P(Versions, OwnRowsAndThoseOfSeveralPeersComeInOneVersion) {
  std::atomic<std::uint64_t> again{0}, rounds{0};
  run_ranks(world(), [&](Member& m) {
    Player player(m);
    m.meet();
    // Again, should no reader have had a turn while a writer had one.
    for (int tries = 0; tries < 50 && (tries == 0 || again == 0); ++tries) {
      std::atomic<bool> written{false}, never{false};
      std::thread writer([&] {
        player.write(60, never);
        written = true;
      });
      for (std::uint64_t round = 0; !written || round < 2; ++round) {
        const Sink sink = player.read(core::mix64(round * 64 + m.rank), 1'000'000);
        player.check(sink);
        EXPECT_TRUE(sink.changing.empty());
        again += sink.again;
        ++rounds;
        if (::testing::Test::HasFailure()) break;
      }
      writer.join();
      if (::testing::Test::HasFailure()) break;
    }
  });
  EXPECT_GT(again.load(), 0u) << "no reader met a writer in " << rounds << " rounds";
}

// A row that is rewritten faster than the three round trips of a read never comes in one version:
// the read ends, says so and leaves zeros. Nothing waits for it.
TEST_P(Versions, RowsRewrittenWithoutPauseAreGivenUpAndTold) {
  std::atomic<std::uint64_t> given_up{0};
  run_ranks(world(), [&](Member& m) {
    Player player(m);
    m.meet();
    std::atomic<bool> stop{false};
    std::thread writer([&] { player.write(1ull << 40, stop); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto met = [&] { return given_up > 0 || std::chrono::steady_clock::now() > end; };
    for (std::uint64_t round = 0; round < 8 || !met(); ++round) {
      const Sink sink = player.read(core::mix64(round * 64 + m.rank), 1);
      player.check(sink);
      given_up += sink.changing.size();
      if (::testing::Test::HasFailure()) break;
    }
    m.meet();  // all readers are through
    stop = true;
    writer.join();
  });
  EXPECT_GT(given_up.load(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Memory, Versions,
                         ::testing::Values(Way{"mapped_alone", true, Transport::automatic, 0, 1},
                                           Way{"mapped", true, Transport::automatic, 0, 3},
                                           Way{"mapped_slow", true, Transport::automatic, 40, 3},
                                           Way{"owner_served", false, Transport::automatic, 0, 2},
                                           Way{"tcp", true, Transport::tcp, 0, 3}),
                         name_of_way);

}  // namespace
}  // namespace engram::gin_plugin::testing
