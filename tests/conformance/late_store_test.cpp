// Rows are stored, a barrier passes, others read them. A barrier releases to the system: however
// late stores are seen, the rows are right. One that does not (a defect of the field) gives old
// bytes.
#include <gtest/gtest.h>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/sim_backend/sim_backend.hpp"
#include "support/fetch_case.hpp"

namespace engram::test {
namespace {

Result<core::BackendStats> run_with(sim::Picos late, core::Defects defects) {
  FetchCase c;
  c.num_rdma = 3;
  c.layers = {{96, 16}};
  c.tokens = 4;
  c.entries = 8;
  c.depth_log2 = 6;
  const model::Profile profile =
      *model::load_profile("h100-cx7-400", model::default_profile_dirs());
  sim_backend::SimOptions options{
      .grid = *c.grid(),
      .fabric = {.profile = profile,
                 .topology = *model::single_switch({.nodes = 3, .gpus_per_node = 1}, profile)}};
  if (late > sim::Picos{0}) {
    options.fabric.faults.faults.push_back({.kind = sim::FaultKind::late_visibility,
                                            .rank = Rank{1},
                                            .delay = late,
                                            .label = "the test"});
  }
  options.defects = defects;
  return run_case(**sim_backend::make_sim(std::move(options)), c, defects);
}

TEST(LateStores, AreWaitedForByTheBarriersRelease) {
  const auto usual = run_with({}, {}), late = run_with(std::chrono::microseconds{300}, {});
  ASSERT_TRUE(usual) << usual.error().message;
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ(late->faults.size(), 1u);
  EXPECT_TRUE(late->warnings.empty());
  EXPECT_NE(late->trace_hash, usual->trace_hash);
}

TEST(LateStores, ShowWhenABarrierDoesNotRelease) {
  const core::Defects defect{.barrier_without_release = true};
  EXPECT_TRUE(run_with({}, defect)) << "nothing is late: the defect hides";
  const auto caught = run_with(std::chrono::microseconds{300}, defect);
  ASSERT_FALSE(caught);
  EXPECT_EQ(caught.error().code, ErrorCode::wrong_bytes);
}

}  // namespace
}  // namespace engram::test
