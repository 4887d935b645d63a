// Congestion control: off by default, it frees a victim of a hot receiver on its lane.
#include "program.hpp"

namespace engram::scenarios {
namespace {

const std::string kOff = "--set cluster.network.congestion_control=none ";

TEST(Congestion, TheVictimOfAHotReceiverRecovers) {
  const Json off = run("congestion_control", kOff), on = run("congestion_control");
  const double before = off.at("logical_gbps"), after = on.at("logical_gbps");
  EXPECT_LE(before, 20) << "head-of-line blocking without it";
  EXPECT_GE(after, 2 * before);
  EXPECT_TRUE(off.at("congestion_control").is_null());
  const Json& did = on.at("congestion_control");
  EXPECT_EQ(did.at("scheme"), "dcqcn");
  EXPECT_GT(did.at("packets_marked"), 0);
  EXPECT_GT(did.at("rate_cuts"), 3);
  EXPECT_LT(did.at("slowest_gbps"), 50.0 / 3);
  EXPECT_EQ(warnings(on, "congestion_control' has no effect"), 0u) << on.at("warnings");
}

TEST(Congestion, IsNamedByTheReport) {
  const Ended ended = engram("run " + scenario("congestion_control"));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("congestion: dcqcn marked "), std::string::npos) << ended.out;
}

TEST(Congestion, WithoutCongestionChangesNothingAndSaysSo) {
  const std::string quiet = "--set fetch.tokens=256 --set 'background=[]' ";
  const Json on = run("congestion_control", quiet), off = run("congestion_control", quiet + kOff);
  EXPECT_EQ(time_us(on), time_us(off));
  EXPECT_EQ(warnings(on, "congestion_control.toml:"), 1u) << on.at("warnings");
  EXPECT_EQ(warnings(on, "cluster.network.congestion_control' has no effect"), 1u);
  EXPECT_EQ(warnings(off, "congestion_control"), 0u);
}

// The numbers are the profile's: a switch that never marks never slows a sender.
TEST(Congestion, FollowsTheProfile) {
  const Json r =
      run("congestion_control",
          "--set fetch.tokens=512 --set 'cluster.override.congestion.mark_from=\"64 MB\"' "
          "--set 'cluster.override.congestion.mark_full=\"65 MB\"' ");
  EXPECT_EQ(r.at("congestion_control").at("packets_marked"), 0);
  EXPECT_LE(r.at("logical_gbps"), 20);
}

}  // namespace
}  // namespace engram::scenarios
