// What only GPUs show: NCCL's device context on the wire, rows written while they are read, and
// what a fetch on a stream does beside its rows.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "conformance/nccl_gpu.hpp"
#include "conformance/nccl_kernels.hpp"
#include "engram/core/engram_table.hpp"
#include "engram/core/row_pattern.hpp"
#include "engram/nccl/nccl_transport.hpp"

namespace engram::test {
namespace {

constexpr Nanos kLimit = kGpuLimit;
constexpr std::uint64_t kRow = 256;

bool first(const core::Transport& transport) { return transport.rank().value == 0; }

// The same as GinConformance.PutsAddsAndSignalsArrive and SignalsFollowTheirPuts, on NcclGin.
TEST(NcclGinOnGpu, PutsAddsAndSignalsArrive) {
  if (!(*nccl_job().backend(core::Mode::direct))->capabilities().paths.rdma) {
    GTEST_SKIP() << "NCCL offers no network here";
  }
  on_all(core::Mode::direct, [](nccl::NcclTransport& transport) -> Result<void> {
    const std::uint32_t ranks = transport.grid().num_ranks();
    const auto layout = core::WindowLayout::create(transport.grid(), core::Placement::gpu, kMiB,
                                                   Bytes{kGinCheckBytes});
    if (auto opened = transport.open(*layout, {1, 64}, std::nullopt); !opened) return opened;
    const auto handles = transport.handles();
    if (!handles) return tl::unexpected(handles.error());
    const std::uint64_t at = layout->buffer().offset.count;
    auto done = cuda(cudaMemset(handles->buffer_base + at, 0, kGinCheckBytes), "free space");
    if (done) done = cuda(cudaDeviceSynchronize(), "free space");
    if (done) done = transport.barrier(kLimit);
    if (!done) return done;
    const OnGpu<std::uint64_t> result(2);
    const Stream stream;
    done = result.state();
    if (done) {
      done = launch_gin_check({*handles, ranks, transport.rank().value, at,
                               5'000'000 * handles->cycles_per_us, result.get()},
                              stream.value);
    }
    if (done) done = stream.join();
    if (done) done = transport.barrier(kLimit);
    if (!done) return done;
    const auto counts = result.take();
    if (!counts) return tl::unexpected(counts.error());
    std::vector<std::uint64_t> words(kGinCheckBytes / 8);
    done = transport.read_buffer(Bytes{at}, std::as_writable_bytes(std::span(words)));
    if (!done) return done;
    EXPECT_EQ((*counts)[0], 0u) << "waits failed";
    EXPECT_EQ((*counts)[1], kGinValues * (kGinValues + 1) / 2) << "a signal overtook its puts";
    EXPECT_EQ(words[kGinSum / 8], ranks * (ranks + 1) / 2);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      EXPECT_EQ(words[r], 0x1000 + r);
      EXPECT_EQ(words[kGinPut / 8 + r], 0x1000 + r);
    }
    return {};
  });
}

/// A table of rows and their versions in GPU memory, each rank's rows rewritten by its own GPU.
struct Changing {
  static constexpr std::uint64_t kRowsEach = 256, kReads = 2048;
  static constexpr std::uint32_t kWords = kRow / 4;
  static constexpr int kRounds = 20;

  core::TableLayout table;
  core::WindowLayout window;
  std::uint64_t rows_at = 0, before_at = 0;

  [[nodiscard]] static Result<Changing> open(nccl::NcclTransport& transport) {
    const std::uint64_t rows = kRowsEach * transport.grid().num_ranks();
    Changing c;
    c.table = *core::TableLayout::create({{rows, Bytes{kRow}}, {rows, core::kVersionBytes}},
                                         transport.grid().num_ranks());
    c.window = *core::WindowLayout::create(transport.grid(), core::Placement::gpu,
                                           c.table.segment_bytes(), Bytes{kReads * (kRow + 16)});
    c.rows_at = c.window.buffer().offset.count;
    c.before_at = c.rows_at + kReads * kRow;
    if (auto opened = transport.open(c.window, {4, 1024}, std::nullopt); !opened) {
      return tl::unexpected(opened.error());
    }
    return c;
  }
  [[nodiscard]] RowWriter writer(const nccl::NcclTransport& transport, std::byte* base) const {
    const auto mine = table.rows_of(LayerIndex{0}, transport.rank());
    return {base + table.place(LayerIndex{0}).base_offset,
            reinterpret_cast<std::uint64_t*>(base + table.place(LayerIndex{1}).base_offset),
            mine.first, mine.count, kWords};
  }
  [[nodiscard]] static std::vector<std::int64_t> draw(std::uint64_t seed, std::uint64_t rows) {
    std::vector<std::int64_t> out(kReads);
    for (auto& row : out) {
      seed = core::mix64(seed);
      row = seed % 50 == 0 ? -1 : static_cast<std::int64_t>(seed / 64 % rows);
    }
    return out;
  }
  struct Rows {
    std::vector<std::uint32_t> words;
    std::vector<std::uint64_t> versions;
  };
  [[nodiscard]] Result<Rows> read(const nccl::NcclTransport& transport) const {
    Rows rows{std::vector<std::uint32_t>(kReads * kWords), std::vector<std::uint64_t>(kReads)};
    auto done =
        transport.read_buffer(Bytes{rows_at}, std::as_writable_bytes(std::span(rows.words)));
    if (done) {
      done =
          transport.read_buffer(Bytes{before_at}, std::as_writable_bytes(std::span(rows.versions)));
    }
    if (!done) return tl::unexpected(done.error());
    return rows;
  }
};

/// Rows that are no one version of theirs, by their first word.
std::uint64_t count_torn(const std::vector<std::uint32_t>& words) {
  std::uint64_t torn = 0;
  for (std::size_t i = 0; i < words.size(); i += Changing::kWords) {
    bool same = true, zero = true;
    for (std::uint32_t w = 0; w < Changing::kWords; ++w) {
      same &= words[i + w] == words[i] + w;
      zero &= words[i + w] == 0;
    }
    torn += !same && !zero;
  }
  return torn;
}

/// `network`: the rows of the own NVLink domain's peers too.
Result<void> read_while_written(nccl::NcclTransport& transport, bool network) {
  const auto c = Changing::open(transport);
  if (!c) return tl::unexpected(c.error());
  const auto handles = transport.handles();
  if (!handles) return tl::unexpected(handles.error());
  auto router = core::make_router(transport.grid(), transport.rank(), core::Placement::gpu,
                                  c->table, c->window, transport.capabilities().paths, false);
  if (!router) return tl::unexpected(router.error());
  if (network) router->domain = core::Path::rdma;
  auto versioned = transport.prepare(
      nccl::VersionedFetchSetup{.router = *router,
                                .num_reads = Changing::kReads,
                                .rows_base = c->rows_at,
                                .before_base = c->before_at,
                                .after_base = c->before_at + 8 * Changing::kReads});
  if (!versioned) return tl::unexpected(versioned.error());
  const core::IndexShape shape{1, Changing::kReads, 1};
  core::EngramOptions options;
  options.placement = core::Placement::gpu;
  auto limits = transport.capabilities().limits;
  limits.max_qps = 4;
  const auto one_layer = *core::TableLayout::create(
      {{c->table.shape(LayerIndex{0}).rows, Bytes{kRow}}}, transport.grid().num_ranks());
  auto plan = core::EngramTable::plan(transport.grid(), one_layer, shape, limits, options);
  if (!plan) return tl::unexpected(plan.error());
  nccl::StreamFetchSetup plain_setup{*router, *plan, shape, {c->rows_at}};
  auto plain = transport.prepare(plain_setup);
  if (!plain) return tl::unexpected(plain.error());

  const OnGpu<std::int64_t> indices(Changing::kReads);
  std::uint32_t* stop = nullptr;
  auto done = indices.state();
  if (done)
    done = cuda(cudaHostAlloc(reinterpret_cast<void**>(&stop), 4, cudaHostAllocMapped), "flag");
  if (!done) return done;
  *stop = 0;
  const Stream writing, reading;
  RowWriter writer = c->writer(transport, handles->storage_base);
  done = launch_row_writer(writer, writing.value);  // version 2 of all rows
  if (done) done = writing.join();
  if (done) done = transport.barrier(kLimit);
  // A kernel's first launch may wait for all that runs: not for the writer.
  if (done) done = versioned->read(indices.get(), reading.value, kLimit);
  if (done) done = plain->issue(indices.get(), reading.value);
  if (done) done = plain->wait(LayerIndex{0}, reading.value, kLimit);
  if (done) done = reading.join();
  writer.first_pass = 1;
  writer.passes = 20'000;
  writer.stop = stop;
  if (done) done = launch_row_writer(writer, writing.value);
  const std::uint64_t rows = c->table.shape(LayerIndex{0}).rows;
  std::uint64_t newer = 0, torn = 0;
  for (int round = 0; round < Changing::kRounds && done; ++round) {
    const auto asked = Changing::draw(core::mix64(round * 64 + transport.rank().value), rows);
    done = indices.put(asked);
    if (done) done = versioned->read(indices.get(), reading.value, kLimit);
    if (done) done = reading.join();
    if (done) done = versioned->check();
    if (!done) break;
    const auto got = c->read(transport);
    if (!got) done = tl::unexpected(got.error());
    for (std::size_t i = 0; i < asked.size() && done; ++i) {
      newer += asked[i] >= 0 && got->versions[i] > 2;
      for (std::uint32_t w = 0; w < Changing::kWords && done; ++w) {
        const std::uint32_t want =
            asked[i] < 0 ? 0 : row_word(static_cast<std::uint64_t>(asked[i]), got->versions[i], w);
        if (got->words[i * Changing::kWords + w] == want) continue;
        done = fail(ErrorCode::wrong_bytes, "round ", round, ", read ", i, ", word ", w,
                    ": not row ", asked[i], " in version ", got->versions[i]);
      }
    }
    // The same rows without versions, for comparison: some are torn.
    if (done) done = plain->issue(indices.get(), reading.value);
    if (done) done = plain->wait(LayerIndex{0}, reading.value, kLimit);
    if (done) done = reading.join();
    if (done) done = plain->check();
    const auto unchecked = c->read(transport);
    if (unchecked) torn += count_torn(unchecked->words);
  }
  *static_cast<volatile std::uint32_t*>(stop) = 1;
  const auto stopped = writing.join();
  if (done) done = stopped;
  cudaFreeHost(stop);
  if (!done) return done;
  const auto again = versioned->count_again();
  if (!again) return tl::unexpected(again.error());
  EXPECT_GT(newer, 0u) << "the writer wrote nothing";
  EXPECT_GT(*again, 0u) << "no reader met the writer";
  if (first(transport)) {
    std::cout << fmt::format(
        "{{\"versions\": {{\"ranks\": {}, \"network\": {}, \"reads\": {}, \"newer\": {}, "
        "\"read_again\": {}, \"torn_without_versions\": {}}}}}\n",
        transport.grid().num_ranks(), network || transport.grid().num_rdma > 1,
        Changing::kReads * Changing::kRounds, newer, *again, torn);
  }
  return {};
}

TEST(NcclVersions, RowsWrittenWhileTheyAreReadComeInOneVersion) {
  on_all(core::Mode::direct,
         [](nccl::NcclTransport& transport) { return read_while_written(transport, false); });
}

TEST(NcclVersions, AlsoThroughTheNetwork) {
  if (!(*nccl_job().backend(core::Mode::direct))->capabilities().paths.rdma) {
    GTEST_SKIP() << "NCCL offers no network here";
  }
  if ((*nccl_job().backend(core::Mode::direct))->grid().num_nvlink == 1) {
    GTEST_SKIP() << "no peer in the own NVLink domain: the other test used the network";
  }
  on_all(core::Mode::direct,
         [](nccl::NcclTransport& transport) { return read_while_written(transport, true); });
}

}  // namespace
}  // namespace engram::test
