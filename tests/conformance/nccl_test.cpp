// What every backend must do with a fetch, on GPUs; and what only GPUs have: streams and graphs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "conformance/nccl_job.hpp"
#include "engram/core/row_pattern.hpp"
#include "engram/nccl/nccl_transport.hpp"
#include "support/fetch_case.hpp"
#include "support/gen.hpp"

namespace engram::test {
namespace {

constexpr Nanos kLimit = std::chrono::seconds{10};

Result<core::BackendStats> run(core::Mode mode, const core::RankMain& main) {
  auto backend = nccl_job().backend(mode);
  if (!backend) return tl::unexpected(backend.error());
  return (*backend)->run(main);
}

/// Any case that fits the job's ranks and, by the process's environment, NCCL's handling of host
/// segments.
FetchCase fitted(FetchCase c) {
  const NcclJob& job = nccl_job();
  const auto backend = *nccl_job().backend(core::Mode::direct);
  const core::RankGrid grid = backend->grid();
  const bool network = backend->capabilities().paths.rdma;
  c.num_rdma = grid.num_rdma;
  c.num_nvlink = grid.num_nvlink;
  c.compat = c.compat && network;
  if (!c.gpu_storage && job.num_ranks > 1) c.hybrid = job.host_hybrid;
  // A rail's GPU holds no rows of its neighbours: hybrid mode reads those by NVLink alone.
  if (c.gpu_storage && c.hybrid && c.num_nvlink > 1) c.compat = false;
  c.depth_log2 = std::max(c.depth_log2, 8u);
  return c;
}

/// With --case-times, a case that never ends is the last one told.
class CaseTimer {
 public:
  explicit CaseTimer(const FetchCase& c) {
    if (nccl_job().case_times) std::cout << "case {" << c << "}" << std::endl;
  }
  ~CaseTimer() {
    if (!nccl_job().case_times) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    std::cout << fmt::format("case took {:.3f} s", took.count()) << std::endl;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(NcclConformance, DeliversTheRowsAskedFor) {
  EXPECT_TRUE(rc::check("bytes equal the reference", [] {
    const FetchCase c = fitted(*gen::fetch_case());
    auto backend = nccl_job().backend(c.hybrid ? core::Mode::hybrid : core::Mode::direct);
    if (!backend) RC_FAIL(backend.error().message);
    const CaseTimer timer(c);
    const auto stats = run_case(**backend, c);
    if (!stats) RC_FAIL(stats.error().message);
    RC_ASSERT(stats->completions == stats->requests);
    RC_ASSERT(stats->doorbells <= stats->requests);
    RC_ASSERT(stats->requests == 0 || stats->doorbells > 0);
    if (c.compat) RC_CLASSIFY(stats->requests > 0, "uses the network");
    RC_CLASSIFY(c.gpu_storage, "rows in GPU memory");
    RC_CLASSIFY(c.hybrid, "hybrid");
  }));
}

TEST(NcclConformance, AFailureOfOneRankReachesAllAndTheNextRunWorks) {
  const auto last = Rank{nccl_job().num_ranks - 1};
  const auto failed = run(core::Mode::direct, [&](core::Transport& transport) -> Result<void> {
    if (transport.rank() == last) return fail(ErrorCode::not_found, "no such row today");
    return {};
  });
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("no such row today"), std::string::npos);
  EXPECT_NE(failed.error().message.find(fmt::format("rank {}", last.value)), std::string::npos);
  FetchCase c = fitted({});
  c.gpu_storage = true;
  c.hybrid = false;
  const auto after = run_case(**nccl_job().backend(core::Mode::direct), c);
  EXPECT_TRUE(after) << after.error().message;
}

TEST(NcclConformance, ABarrierThatARankMissesNamesIt) {
  if (nccl_job().num_ranks < 2) GTEST_SKIP() << "one rank misses nobody";
  const auto failed = run(core::Mode::direct, [](core::Transport& transport) -> Result<void> {
    auto layout = core::WindowLayout::create(transport.grid(), core::Placement::gpu, kMiB, kMiB);
    if (auto opened = transport.open(*layout, {}, std::nullopt); !opened) return opened;
    if (transport.rank().value == 1) return {};
    return transport.barrier(std::chrono::milliseconds{300});
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::timed_out) << failed.error().message;
  EXPECT_NE(failed.error().message.find("peer 1"), std::string::npos) << failed.error().message;
}

TEST(NcclConformance, ReadsPastAWindowAreNamed) {
  const auto ran = run(core::Mode::direct, [](core::Transport& transport) -> Result<void> {
    const auto table = *core::TableLayout::create({{100, Bytes{64}}}, transport.grid().num_ranks());
    auto layout = core::WindowLayout::create(transport.grid(), core::Placement::gpu,
                                             table.segment_bytes(), kMiB);
    if (auto opened = transport.open(*layout, {}, std::nullopt); !opened) return opened;
    auto router = core::make_router(transport.grid(), transport.rank(), core::Placement::gpu, table,
                                    *layout, transport.capabilities().paths, false);
    const std::int64_t indices[] = {5, 100};
    const std::uint64_t base[] = {core::kWorkspaceBytes.count};
    const auto posted = transport.post({*router, {}, {1, 1, 2}, indices, base});
    if (posted || posted.error().code != ErrorCode::out_of_range ||
        posted.error().message.find("slot 1") == std::string::npos) {
      return fail(ErrorCode::wrong_bytes,
                  posted ? "row 100 of 100 was posted" : posted.error().message);
    }
    return {};
  });
  EXPECT_TRUE(ran) << ran.error().message;
}

/// The default fetch: 512 tokens x 24 rows of 256 B.
constexpr std::uint64_t kTokens = 512, kRow = 256;
constexpr std::uint32_t kEntries = 24;
constexpr core::RowPattern kPattern{99};

struct Timing {
  double queued_us = 0, graph_us = 0;
};

Result<void> cuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return fail(ErrorCode::internal, what, ": ", cudaGetErrorString(code));
}

/// Issue and wait `count` times between two events, behind a pause that lets the queue fill.
Result<double> time_queued(nccl::StreamFetch& fetch, const std::int64_t* indices,
                           cudaStream_t stream, int count) {
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  auto done = cuda(cudaLaunchHostFunc(
                       stream, [](void*) { usleep(4000); }, nullptr),
                   "pause");
  cudaEventRecord(begin, stream);
  for (int i = 0; i < count && done; ++i) {
    done = fetch.issue(indices, stream);
    if (done) done = fetch.wait(LayerIndex{0}, stream, kLimit);
  }
  cudaEventRecord(end, stream);
  if (done) done = cuda(cudaStreamSynchronize(stream), "queued fetches");
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (!done) return tl::unexpected(done.error());
  return ms * 1000.0 / count;
}

Result<void> check_rows(const core::Transport& transport, std::uint64_t at,
                        const std::vector<std::int64_t>& indices) {
  std::vector<std::byte> got(indices.size() * kRow);
  if (auto read = transport.read_buffer(Bytes{at}, got); !read) return read;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (kPattern.matches(LayerIndex{0}, indices[i], std::span(got).subspan(i * kRow, kRow)))
      continue;
    return fail(ErrorCode::wrong_bytes, "slot ", i, " is not row ", indices[i]);
  }
  return {};
}

/// `same`: every rank draws alike. On two streams, then as graphs whose indices change between
/// replays.
Result<Timing> stream_fetch(nccl::NcclTransport& transport, core::EngramTable& table,
                            const core::TableLayout& layout) {
  const core::IndexShape shape{1, kTokens, kEntries};
  core::EngramOptions options;
  options.placement = core::Placement::gpu;
  auto plan = core::EngramTable::plan(transport.grid(), layout, shape,
                                      transport.capabilities().limits, options);
  if (!plan) return tl::unexpected(plan.error());
  const std::uint64_t at = table.window().buffer().offset.count;
  auto fetch = transport.prepare({table.router(), *plan, shape, {at}});
  if (!fetch) return tl::unexpected(fetch.error());
  std::int64_t* indices = nullptr;
  cudaStream_t issue = nullptr, compute = nullptr;
  auto done = cuda(cudaMalloc(reinterpret_cast<void**>(&indices), shape.count() * 8), "indices");
  if (done) done = cuda(cudaStreamCreateWithFlags(&issue, cudaStreamNonBlocking), "stream");
  if (done) done = cuda(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "stream");
  const auto draw = [&](std::uint64_t round) {
    std::vector<std::int64_t> rows(shape.count());
    std::uint64_t state = core::mix64(round * 64 + transport.rank().value);
    for (auto& row : rows) {
      state = core::mix64(state);
      row = state % 50 == 0
                ? -1
                : static_cast<std::int64_t>(state / 64 % layout.shape(LayerIndex{0}).rows);
    }
    return rows;
  };
  const auto put = [&](const std::vector<std::int64_t>& rows) {
    return cuda(cudaMemcpy(indices, rows.data(), rows.size() * 8, cudaMemcpyHostToDevice), "rows");
  };
  auto rows = draw(0);
  if (done) done = put(rows);
  if (done) done = fetch->issue(indices, issue);
  if (done) done = fetch->wait(LayerIndex{0}, compute, kLimit);
  if (done) done = cuda(cudaStreamSynchronize(compute), "two streams");
  if (done) done = check_rows(transport, at, rows);

  constexpr int kInGraph = 64;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  if (done) done = cuda(cudaStreamBeginCapture(issue, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kInGraph && done; ++i) {
    done = fetch->issue(indices, issue);
    if (done) done = fetch->wait(LayerIndex{0}, issue, kLimit);
  }
  if (done) done = cuda(cudaStreamEndCapture(issue, &graph), "end of capture");
  if (done) done = cuda(cudaGraphInstantiate(&replay, graph, 0), "graph");
  std::vector<double> in_graph, queued;
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (std::uint64_t round = 1; round <= 9 && done; ++round) {
    rows = draw(round);
    done = put(rows);
    cudaEventRecord(begin, issue);
    if (done) done = cuda(cudaGraphLaunch(replay, issue), "replay");
    cudaEventRecord(end, issue);
    if (done) done = cuda(cudaStreamSynchronize(issue), "replay");
    if (done) done = check_rows(transport, at, rows);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    in_graph.push_back(ms * 1000.0 / kInGraph);
    if (!done) break;
    auto time = time_queued(*fetch, indices, issue, kInGraph);
    if (!time) done = tl::unexpected(time.error());
    queued.push_back(time.value_or(0));
  }
  if (done) done = fetch->check();
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (replay != nullptr) cudaGraphExecDestroy(replay);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(issue);
  cudaStreamDestroy(compute);
  cudaFree(indices);
  if (!done) return tl::unexpected(done.error());
  std::ranges::nth_element(in_graph, in_graph.begin() + 4);
  std::ranges::nth_element(queued, queued.begin() + 4);
  return Timing{queued[4], in_graph[4]};
}

TEST(NcclStreams, AFetchOnStreamsAndInGraphs) {
  const auto ran = run(core::Mode::direct, [](core::Transport& transport) -> Result<void> {
    const std::uint64_t rows = 262'144ull * transport.grid().num_ranks();
    const auto layout =
        *core::TableLayout::create({{rows, Bytes{kRow}}}, transport.grid().num_ranks());
    core::EngramOptions options;
    options.placement = core::Placement::gpu;
    options.largest = {1, kTokens, kEntries};
    auto table = core::EngramTable::create(transport, layout, options);
    if (!table) return tl::unexpected(table.error());
    const auto mine = layout.rows_of(LayerIndex{0}, transport.rank());
    std::vector<std::byte> bytes(mine.count * kRow);
    for (std::uint64_t i = 0; i < mine.count; ++i) {
      kPattern.fill(LayerIndex{0}, mine.first + i, std::span(bytes).subspan(i * kRow, kRow));
    }
    if (auto written = table->write(LayerIndex{0}, bytes, kLimit); !written) return written;
    auto timing = stream_fetch(dynamic_cast<nccl::NcclTransport&>(transport), *table, layout);
    if (!timing) return tl::unexpected(timing.error());
    if (transport.rank().value == 0) {
      std::cout << fmt::format(
          "{{\"stream_fetch\": {{\"ranks\": {}, \"processes\": {}, \"rows\": {}, \"row_bytes\": "
          "{}, "
          "\"network\": {}, \"queued_us\": {:.2f}, \"graph_us\": {:.2f}}}}}\n",
          transport.grid().num_ranks(), nccl_job().processes, kTokens * kEntries, kRow,
          transport.grid().num_rdma > 1, timing->queued_us, timing->graph_us);
    }
    return transport.barrier(kLimit);
  });
  EXPECT_TRUE(ran) << ran.error().message;
}

}  // namespace
}  // namespace engram::test
