#include "support/version_case.hpp"

#include <algorithm>
#include <ostream>
#include <vector>

#include "engram/core/row_pattern.hpp"
#include "engram/core/versioned_protocol.hpp"
#include "engram/host/host_gin.hpp"
#include "engram/host/host_transport.hpp"

namespace engram::test {
namespace {

using core::Ring;
using core::Team;
using host::HostGin;
using host::HostWarp;
using host::Window;

constexpr Nanos kLimit = std::chrono::seconds{10};
constexpr core::Deadline kDeadline{10'000'000'000ull};
constexpr LayerIndex kRows{0}, kVersions{1};

struct Sink {
  host::FirstError errors;
  std::vector<core::ChangingRow> changing;
  std::uint64_t again = 0;
  void report(const core::WaitError& error) { errors.report(error); }
  void report_changing(const core::ChangingRow& row) { changing.push_back(row); }
  void count_again(std::uint32_t rows) { again += rows; }
};
static_assert(core::VersionSink<Sink>);

std::vector<std::uint32_t> words_of(const VersionCase& c, std::uint64_t row,
                                    std::uint64_t version) {
  std::vector<std::uint32_t> words(c.row_words);
  for (std::uint32_t w = 0; w < c.row_words; ++w) {
    words[w] = static_cast<std::uint32_t>(core::mix64(row * 1'000'003 + version) + w);
  }
  return words;
}

struct Update {
  std::uint64_t row = 0, version = 0;
};

/// One rank's part in a case.
class Player {
 public:
  Player(const VersionCase& c, host::HostTransport& transport, const core::Defects& defects)
      : case_(c), transport_(transport), self_(transport.rank()), defects_(defects) {}

  [[nodiscard]] Result<VersionCounts> play() {
    if (auto opened = open(); !opened) return tl::unexpected(opened.error());
    if (auto all = transport_.barrier(kLimit); !all) return tl::unexpected(all.error());
    host::Kernel kernel;
    kernel.blocks = 2;  // readers on QP 0, the writer on QP 1
    kernel.warps_per_block = case_.warps;
    kernel.body = [this](host::Warp& warp) {
      const auto position = warp.position();
      const HostGin gin(warp, position.block);
      HostWarp group(warp);
      if (position.block == 0) {
        core::read_versioned(gin, group, args_, position.warp, case_.warps, sink_);
      } else if (position.warp == 0) {
        write(gin);
      }
    };
    if (auto ran = transport_.run(std::move(kernel), kLimit); !ran) {
      return tl::unexpected(ran.error());
    }
    if (sink_.errors.first.status != core::WaitStatus::ok) {
      return fail(ErrorCode::timed_out, describe(sink_.errors.first));
    }
    if (auto all = transport_.barrier(kLimit); !all) return tl::unexpected(all.error());
    return check();
  }

 private:
  [[nodiscard]] Result<void> open() {
    const std::uint64_t row = case_.row_words * 4ull;
    const std::uint32_t ranks = transport_.grid().num_ranks();
    table_ = *core::TableLayout::create(
        {{case_.rows, Bytes{row}}, {case_.rows, core::kVersionBytes}}, ranks);
    if (auto fit = core::check_versions(table_, kRows, kVersions); !fit) return fit;
    staging_ = align_up(table_.segment_bytes(), Bytes{64}).count;
    buffer_ = core::kWorkspaceBytes.count;
    const std::uint64_t reads = case_.reads;
    window_ = *core::WindowLayout::create(transport_.grid(), core::Placement::gpu,
                                          Bytes{staging_ + case_.updates * row},
                                          Bytes{reads * row + 64 + 16 * reads});
    if (auto opened = transport_.open(window_, {2, 64}, std::nullopt); !opened) return opened;
    std::uint64_t state = core::mix64(case_.seed * 64 + self_.value);
    for (std::uint64_t i = 0; i < reads; ++i) {
      state = core::mix64(state);
      indices_.push_back(state % 9 == 0 ? -1 : static_cast<std::int64_t>(state / 16 % case_.rows));
    }
    const auto router = core::make_router(transport_.grid(), self_, core::Placement::gpu, table_,
                                          window_, transport_.capabilities().paths, case_.compat);
    if (!router) return tl::unexpected(router.error());
    args_.reads = {*router,
                   kRows.value,
                   kVersions.value,
                   indices_.data(),
                   reads,
                   buffer_,
                   align_up(Bytes{buffer_ + reads * row}, Bytes{64}).count};
    args_.reads.after_base = args_.reads.before_base + 8 * reads;
    args_.self = self_;
    args_.grid = transport_.grid();
    args_.storage = Window::storage;
    args_.buffer = Window::buffer;
    args_.batch = case_.batch;
    // A schedule may give the network one turn in seventeen while a reader by loads never waits.
    args_.max_attempts = 10'000;
    args_.deadline = kDeadline;
    args_.defects = defects_;
    return write_initial();
  }

  [[nodiscard]] Result<void> write_initial() {
    const auto mine = table_.rows_of(kRows, self_);
    for (std::uint64_t i = 0; i < mine.count; ++i) {
      const auto words = words_of(case_, mine.first + i, 2);
      if (auto done = core::update_own_row(transport_, table_, kRows, kVersions, mine.first + i,
                                           std::as_bytes(std::span(words)), 2);
          !done) {
        return done;
      }
    }
    // Few rows, often: readers are to meet the writers.
    const std::uint32_t ranks = transport_.grid().num_ranks();
    std::vector<std::uint64_t> versions(case_.rows, 2);
    std::uint64_t state = core::mix64(case_.seed ^ self_.value << 20);
    for (std::uint32_t u = 0; u < case_.updates; ++u) {
      state = core::mix64(state);
      const std::uint64_t row = self_.value + state % 3 * ranks;
      if (row >= case_.rows) continue;
      updates_.push_back({row, versions[row] += 2});
      const auto words = words_of(case_, row, updates_.back().version);
      const Bytes at{staging_ + (updates_.size() - 1) * words.size() * 4};
      if (auto done = transport_.write_segment(at, std::as_bytes(std::span(words))); !done) {
        return done;
      }
    }
    return {};
  }

  /// Each row in two puts, so that a reader in between finds half of it.
  void write(const HostGin& gin) const {
    const std::uint32_t first = case_.row_words / 2 * 4, bytes = case_.row_words * 4;
    for (std::size_t u = 0; u < updates_.size(); ++u) {
      const auto index = static_cast<std::int64_t>(updates_[u].row);
      const core::Place row = args_.reads.router.route(kRows.value, index);
      const core::Place version = args_.reads.router.route(kVersions.value, index);
      const std::uint32_t peer = row.owner.value;
      const std::uint64_t from = staging_ + u * bytes;
      const auto status = core::put_versioned(
          gin, Team::world, peer, Window::storage, version.owner_offset, updates_[u].version,
          kDeadline, [&] {
            gin.put(Team::world, peer, Window::storage, row.owner_offset, Window::storage, from,
                    first, Ring::now);
            gin.put(Team::world, peer, Window::storage, row.owner_offset + first, Window::storage,
                    from + first, bytes - first, Ring::now);
          });
      require(status == core::WaitStatus::ok, "puts end well where no fault was asked for");
    }
  }

  template <class T>
  [[nodiscard]] Result<std::vector<T>> read(std::uint64_t offset, std::uint64_t count) const {
    std::vector<T> out(count);
    auto done = transport_.read_buffer(Bytes{offset}, std::as_writable_bytes(std::span(out)));
    if (!done) return tl::unexpected(done.error());
    return out;
  }

  [[nodiscard]] Result<VersionCounts> check() const {
    const auto rows = read<std::uint32_t>(args_.reads.rows_base, indices_.size() * case_.row_words);
    const auto versions = read<std::uint64_t>(args_.reads.before_base, indices_.size());
    if (!rows) return tl::unexpected(rows.error());
    if (!versions) return tl::unexpected(versions.error());
    VersionCounts counts{sink_.again, sink_.changing.size(), 0};
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const bool given_up = std::ranges::any_of(
          sink_.changing, [i](const core::ChangingRow& row) { return row.read == i; });
      const bool none = indices_[i] < 0 || given_up;
      const auto want =
          none ? std::vector<std::uint32_t>(case_.row_words)
               : words_of(case_, static_cast<std::uint64_t>(indices_[i]), (*versions)[i]);
      const auto got = std::span(*rows).subspan(i * case_.row_words, case_.row_words);
      counts.newer += !none && (*versions)[i] > 2;
      if (std::ranges::equal(got, want)) continue;
      return fail(ErrorCode::wrong_bytes, "rank ", self_.value, ", read ", i, ": not row ",
                  indices_[i], " in version ", (*versions)[i]);
    }
    return counts;
  }

  const VersionCase& case_;
  host::HostTransport& transport_;
  Rank self_;
  core::Defects defects_;
  core::TableLayout table_;
  core::WindowLayout window_;
  std::uint64_t staging_ = 0, buffer_ = 0;  // offsets in the segment and in the buffer window
  std::vector<std::int64_t> indices_;
  std::vector<Update> updates_;
  core::VersionedArgs<HostGin> args_;
  Sink sink_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const VersionCase& c) {
  return out << "seed = " << c.seed << ", domains = " << c.num_rdma << " x " << c.num_nvlink
             << (c.compat ? ", compat" : "") << ", rows = " << c.rows << " x " << c.row_words * 4
             << "B, reads = " << c.reads << ", updates = " << c.updates << ", warps = " << c.warps
             << ", batch = " << c.batch;
}

Result<VersionCounts> run_version_case(core::Backend& backend, const VersionCase& c,
                                       const core::Defects& defects) {
  VersionCounts all;
  const auto ran = backend.run([&](core::Transport& transport) -> Result<void> {
    auto counts = Player(c, dynamic_cast<host::HostTransport&>(transport), defects).play();
    if (!counts) return tl::unexpected(counts.error());
    all.again += counts->again;
    all.changing += counts->changing;
    all.newer += counts->newer;
    return {};
  });
  if (!ran) return tl::unexpected(ran.error());
  return all;
}

}  // namespace engram::test
