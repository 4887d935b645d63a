#include "engram/kernels/gather_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engram/kernels/fetch_rows.hpp"
#include "gather_case.hpp"

namespace engram::kernels {
namespace {

using testing::Buffer;
using testing::draw_case;
using testing::GatherCase;
using testing::must;
using testing::Place;

class GatherRowsGpu : public testing::GpuTest {};

/// Runs `plan` and compares every byte; a second time, so that a workspace left dirty shows.
void fetch_and_compare(GatherCase& c, const FetchPlan& plan) {
  const auto size = fetch_workspace(c.args, plan);
  RC_ASSERT(size.has_value());
  const Buffer workspace(size->count);
  RC_ASSERT(prepare_fetch(c.args, plan, workspace.get(), nullptr).has_value());
  const auto expected = c.expected();
  for (int round = 0; round < 2; ++round) {
    c.poison();
    const auto done = launch_fetch_rows(c.args, plan, workspace.get(), *size, nullptr);
    if (!done) RC_FAIL(done.error().message);
    must(cudaDeviceSynchronize());
    const auto got = c.fetched.read();
    const auto wrong = std::mismatch(expected.begin(), expected.end(), got.begin());
    if (wrong.first != expected.end()) {
      RC_FAIL("round " + std::to_string(round) + ": byte " +
              std::to_string(wrong.first - expected.begin()) + " of " +
              std::to_string(expected.size()) + " in rows of " +
              std::to_string(c.args.fetched_row_bytes()));
    }
  }
}

RC_GTEST_FIXTURE_PROP(GatherRowsGpu, EqualsTheReferenceForAnyShapeAndStrategy, ()) {
  auto c = draw_case({});
  const int sm_limit = *rc::gen::element(0, 0, 1, 3, 8);
  const auto gather = plan_gather(shape_of(c.args, 132, sm_limit));
  RC_ASSERT(gather.has_value());
  const FetchPlan plan{
      .order = *rc::gen::element(FetchOrder::as_given, FetchOrder::as_given,
                                 FetchOrder::by_page_small, FetchOrder::by_page_sort),
      .unique = *rc::gen::arbitrary<bool>(),
      .gather = *gather};
  RC_CLASSIFY(plan.unique, "unique");
  RC_CLASSIFY(plan.order != FetchOrder::as_given, "ordered");
  RC_CLASSIFY(c.args.tail.row_bytes > 0, "split");
  RC_CLASSIFY(c.args.num_rows() == 0, "empty");
  fetch_and_compare(c, plan);
}

RC_GTEST_FIXTURE_PROP(GatherRowsGpu, RecordsABadIndexByItsPlace, ()) {
  auto c = draw_case({});
  auto box = ErrorRecordBox::create();
  RC_ASSERT(box.has_value());
  c.args.error = box->sink();
  c.args.rank = 5;
  const auto launch = plan_gather(shape_of(c.args, 132, *rc::gen::element(0, 2)));
  RC_ASSERT(launch.has_value());
  RC_ASSERT(launch_gather_rows(c.args, *launch, nullptr).has_value());
  must(cudaDeviceSynchronize());
  const auto bad = c.bad_positions();
  const auto record = box->take();
  RC_ASSERT(record.has_value() == !bad.empty());
  RC_ASSERT(c.fetched.read() == c.expected());
  if (!record) return;
  const std::int64_t position = record->layer * c.args.rows_per_layer() +
                                record->token * c.args.entries_per_token + record->slot;
  RC_ASSERT(std::find(bad.begin(), bad.end(), position) != bad.end());
  RC_ASSERT(record->seen == c.indices[static_cast<std::size_t>(position)]);
  RC_ASSERT(record->expected == c.args.layers[static_cast<std::size_t>(record->layer)].num_rows);
  RC_ASSERT(record->rank == 5);
  RC_ASSERT(!box->take().has_value());
}

// 2^32 rows and more: a table of 16 GiB whose last rows are read.
TEST_F(GatherRowsGpu, ReachesRowsPastThirtyTwoBits) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 32) + 1000;
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total));
  if (free < kRows * 4 + (std::size_t{1} << 30)) {
    GTEST_SKIP() << "needs " << kRows * 4 << " bytes of GPU memory, " << free << " are free";
  }
  const Buffer table(kRows * 4);
  const std::vector<std::int64_t> indices{0, kRows - 1, (std::int64_t{1} << 32) + 1, kRows, 999};
  std::vector<std::uint32_t> expected{11, 12, 13, 0, 14};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= kRows) continue;
    must(cudaMemcpy(table.get() + indices[i] * 4, &expected[i], 4, cudaMemcpyHostToDevice));
  }
  Buffer index_buffer(indices.size() * 8), fetched(indices.size() * 4);
  index_buffer.write(indices.data(), index_buffer.size());
  GatherRowsArgs args{.indices = index_buffer.as<std::int64_t>(),
                      .fetched = fetched.get(),
                      .num_tokens = 1,
                      .entries_per_token = static_cast<int>(indices.size()),
                      .row_bytes = 4};
  args.layers[0] = {.entries_per_owner = FastDivide(kRows), .num_rows = kRows};
  args.owners.inline_base[0] = table.get();
  args.owners.num_owners = 1;
  const auto launch = plan_gather(shape_of(args, 132, 0));
  ASSERT_TRUE(launch_gather_rows(args, *launch, nullptr).has_value());
  must(cudaDeviceSynchronize());
  const auto got = fetched.read();
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
}

TEST_F(GatherRowsGpu, RefusesWhatNoKernelServes) {
  GatherRowsArgs args{.num_tokens = 1, .entries_per_token = 1, .row_bytes = 6};
  args.owners.num_owners = 1;
  EXPECT_EQ(launch_gather_rows(args, {}, nullptr).error().code, ErrorCode::invalid_argument);
  args.row_bytes = 256;
  args.num_layers = 17;
  EXPECT_EQ(launch_gather_rows(args, {}, nullptr).error().code, ErrorCode::invalid_argument);
  args.num_layers = 1;
  args.layers[0] = {.entries_per_owner = FastDivide(10), .num_rows = 11};
  const auto refused = launch_gather_rows(args, {}, nullptr);
  EXPECT_NE(refused.error().message.find("11 rows over 1 owners of 10"), std::string::npos);
}

}  // namespace
}  // namespace engram::kernels
