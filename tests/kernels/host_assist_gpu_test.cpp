#include "engram/kernels/host_assist.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "gather_case.hpp"

namespace engram::kernels {
namespace {

using testing::draw_case;
using testing::must;

class HostAssistGpu : public testing::GpuTest {};

RC_GTEST_FIXTURE_PROP(HostAssistGpu, EqualsTheReferenceForAnyShape, ()) {
  auto c = draw_case({.host_only = true, .device_table = false});
  auto box = ErrorRecordBox::create();
  RC_ASSERT(box.has_value());
  c.args.error = box->sink();
  auto assist = HostAssist::create({.threads = *rc::gen::inRange(1, 4),
                                    .max_rows = std::max<std::int64_t>(1, c.args.num_rows()),
                                    .max_row_bytes = c.args.fetched_row_bytes()});
  RC_ASSERT(assist.has_value());
  for (int round = 0; round < 3; ++round) {
    c.poison();
    RC_ASSERT((*assist)->launch(c.args, nullptr).has_value());
    must(cudaDeviceSynchronize());
    RC_ASSERT(c.fetched.read() == c.expected());
  }
  const auto record = box->take();
  RC_ASSERT(record.has_value() == !c.bad_positions().empty());
  if (record) RC_ASSERT(record->kind == ErrorKind::index_out_of_range);
}

TEST_F(HostAssistGpu, RefusesAFetchLargerThanItsStaging) {
  auto assist = HostAssist::create({.threads = 1, .max_rows = 10, .max_row_bytes = 256});
  ASSERT_TRUE(assist.has_value());
  const testing::Buffer memory(11 * 256, testing::Place::host);
  GatherRowsArgs args{.indices = memory.as<std::int64_t>(),
                      .fetched = memory.get(),
                      .num_tokens = 11,
                      .entries_per_token = 1,
                      .row_bytes = 256};
  args.layers[0] = {.entries_per_owner = FastDivide(11), .num_rows = 11};
  args.owners.num_owners = 1;
  args.owners.inline_base[0] = memory.get();
  EXPECT_NE((*assist)->launch(args, nullptr).error().message.find("11 rows"), std::string::npos);
}

}  // namespace
}  // namespace engram::kernels
