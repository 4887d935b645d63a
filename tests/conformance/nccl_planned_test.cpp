// What a fetch on a stream does beside its rows, and what its planner chooses, on GPUs.
#include <algorithm>
#include <array>

#include "conformance/nccl_gpu.hpp"
#include "engram/core/engram_table.hpp"
#include "engram/core/row_pattern.hpp"

namespace engram::test {
namespace {

constexpr Nanos kLimit = kGpuLimit;
constexpr std::uint64_t kRow = 256;
constexpr core::RowPattern kPattern{41};

/// Fetches through a StreamFetch whose planner is told more, with scales beside them.
struct PlannedCase {
  core::Placement placement = core::Placement::gpu;
  std::uint64_t rows_each = 65'536;
  std::uint64_t distinct = 8192;  ///< rows that indices name, spread over the table
  core::IndexShape shape{1, 512, 24};
  std::optional<double> share{};
  int assist_threads = 0;
};

Result<std::vector<kernels::FetchPlan>> fetch_as_planned(nccl::NcclTransport& transport,
                                                         const PlannedCase& c) {
  const std::uint32_t ranks = transport.grid().num_ranks();
  const std::uint64_t rows = c.rows_each * ranks;
  const auto layout = *core::TableLayout::create({{rows, Bytes{kRow}, 2}}, ranks);
  core::EngramOptions options;
  options.placement = c.placement;
  options.largest = c.shape;
  auto table = core::EngramTable::create(transport, layout, options);
  if (!table) return tl::unexpected(table.error());
  const std::uint64_t step = rows / c.distinct;
  const auto mine = layout.rows_of(LayerIndex{0}, transport.rank());
  std::array<std::byte, kRow> row;
  for (std::uint64_t r = 0; r < c.distinct; ++r) {  // only rows that are asked for
    if (r * step < mine.first || r * step >= mine.first + mine.count) continue;
    kPattern.fill(LayerIndex{0}, r * step, row);
    const Bytes at{layout.place(LayerIndex{0}).base_offset + (r * step - mine.first) * kRow};
    if (auto written = transport.write_segment(at, row); !written) {
      return tl::unexpected(written.error());
    }
  }
  auto plan = core::EngramTable::plan(transport.grid(), layout, c.shape,
                                      transport.capabilities().limits, options);
  if (!plan) return tl::unexpected(plan.error());

  std::vector<std::int64_t> asked(c.shape.count());
  std::uint64_t state = core::mix64(transport.rank().value + 5);
  for (auto& index : asked) {
    state = core::mix64(state);
    index = state % 50 == 0 ? -1 : static_cast<std::int64_t>(state / 64 % c.distinct * step);
  }
  std::vector<std::uint32_t> packs(rows * 2);
  for (std::size_t i = 0; i < packs.size(); ++i) packs[i] = static_cast<std::uint32_t>(i * 7 + 1);
  const OnGpu<std::int64_t> indices(asked.size());
  const OnGpu<std::uint32_t> scales(packs.size());
  const std::size_t column =
      static_cast<std::size_t>(kernels::scale_column(static_cast<std::int64_t>(c.shape.tokens)));
  const OnGpu<std::uint32_t> by_row(asked.size() * 2),
      by_column(column * c.shape.entries_per_token * 2);
  auto done = indices.put(asked);
  if (done) done = scales.put(packs);
  const std::uint64_t at = table->window().buffer().offset.count;
  nccl::StreamFetchSetup setup{table->router(), *plan, c.shape, {at}};
  setup.distinct_share = c.share;
  if (c.assist_threads > 0) {
    auto assist =
        kernels::HostAssist::create({.threads = c.assist_threads,
                                     .max_rows = static_cast<std::int64_t>(c.shape.count()),
                                     .max_row_bytes = static_cast<int>(kRow)});
    if (!assist) return tl::unexpected(assist.error());
    setup.assist = std::move(*assist);
  }
  setup.scales = {
      {LayerIndex{0}, scales.get(), 2, kernels::ScaleLayout::row_major, by_row.get()},
      {LayerIndex{0}, scales.get(), 2, kernels::ScaleLayout::column_major, by_column.get()}};
  auto fetch = transport.prepare(setup);
  if (!fetch) return tl::unexpected(fetch.error());
  const Stream stream;
  if (done) done = transport.barrier(kLimit);
  if (done) done = fetch->issue(indices.get(), stream.value);
  if (done) done = fetch->wait(LayerIndex{0}, stream.value, kLimit);
  if (done) done = stream.join();
  if (done) done = fetch->check();
  std::vector<std::byte> got(asked.size() * kRow);
  if (done) done = transport.read_buffer(Bytes{at}, got);
  if (!done) return tl::unexpected(done.error());
  const auto row_major = by_row.take(), column_major = by_column.take();
  if (!row_major) return tl::unexpected(row_major.error());
  if (!column_major) return tl::unexpected(column_major.error());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const bool right =
        kPattern.matches(LayerIndex{0}, asked[i], std::span(got).subspan(i * kRow, kRow));
    const std::size_t token = i / c.shape.entries_per_token, entry = i % c.shape.entries_per_token;
    bool scaled = true;
    for (std::size_t p = 0; p < 2; ++p) {
      const std::uint32_t want =
          asked[i] < 0 ? 0 : packs[static_cast<std::size_t>(asked[i]) * 2 + p];
      scaled &= (*row_major)[i * 2 + p] == want &&
                (*column_major)[(entry * 2 + p) * column + token] == want;
    }
    if (right && scaled) continue;
    return fail(ErrorCode::wrong_bytes, "slot ", i, ": ", right ? "scales" : "bytes",
                " are not those of row ", asked[i]);
  }
  return fetch->plans();
}

void expect_plan(core::Mode mode, const PlannedCase& c,
                 const std::function<bool(const kernels::FetchPlan&)>& wanted, const char* what) {
  on_all(mode, [&](nccl::NcclTransport& transport) -> Result<void> {
    const auto plans = fetch_as_planned(transport, c);
    if (!plans) return tl::unexpected(plans.error());
    if (plans->size() == 1 && wanted((*plans)[0])) return {};
    return fail(ErrorCode::internal, "the planner did not choose ", what);
  });
}

core::Mode host_mode() {
  return nccl_job().num_ranks > 1 && nccl_job().host_hybrid ? core::Mode::hybrid
                                                            : core::Mode::direct;
}

TEST(NcclPlanned, ScalesComeBesideTheRows) {
  expect_plan(
      core::Mode::direct, {}, [](const auto& plan) { return !plan.unique; }, "each row");
}

TEST(NcclPlanned, RepeatedRowsAreReadOnce) {
  PlannedCase c;
  c.distinct = 8192;
  c.shape = {1, 6000, 24};
  c.share = 0.06;
  const bool loads = (*nccl_job().backend(core::Mode::direct))->grid().num_nvlink > 1;
  expect_plan(
      core::Mode::direct, c, [&](const auto& plan) { return plan.unique == loads; },
      loads ? "distinct rows" : "each row");
}

TEST(NcclPlanned, RepeatedHostRowsAreReadOnceInOrder) {
  PlannedCase c;
  c.placement = core::Placement::host;
  c.distinct = 4096;
  c.shape = {1, 2000, 24};
  c.share = 0.09;
  expect_plan(
      host_mode(), c, [](const auto& plan) { return plan.unique; }, "distinct rows");
}

TEST(NcclPlanned, HostThreadsGatherWhereTheyAreFaster) {
  PlannedCase c;
  c.placement = core::Placement::host;
  c.rows_each = (kGiB.count + kGiB.count / 4) / kRow;  // beyond the reach of translations
  c.distinct = 16'384;
  c.shape = {1, 128, 24};
  c.assist_threads = 16;
  // Threads reach their own rank's rows; in a hybrid window, those of the domain.
  const bool all = nccl_job().num_ranks == 1 || host_mode() == core::Mode::hybrid;
  expect_plan(
      host_mode(), c, [&](const auto& plan) { return plan.assisted || !all; }, "host threads");
}

}  // namespace
}  // namespace engram::test
