// Faults: each is survived with the right bytes, or ends in a named error within stated time.
#include "program.hpp"

namespace engram::scenarios {
namespace {

/// A run that must end with status 1: its result.
Json failed(const std::string& name) {
  const Ended ended = engram("run " + scenario(name) + " --json -");
  EXPECT_EQ(ended.status, 1) << name << ended.out << ended.err;
  const Json json = ended.json();
  EXPECT_FALSE(json.is_discarded()) << ended.out;
  EXPECT_EQ(json.at("verified"), false);
  EXPECT_NE(ended.err.find(json.at("failure").get<std::string>()), std::string::npos) << ended.err;
  return json;
}

bool names(const Json& result, const std::string& text) {
  return result.at("failure").get<std::string>().find(text) != std::string::npos;
}

TEST(Faults, ANicErrorIsNamedWithRankPeerAndQp) {
  const Json r = failed("nic_error");
  EXPECT_TRUE(names(r, "rank 1 waited for rank ")) << r.at("failure");
  EXPECT_TRUE(names(r, " on QP ")) << r.at("failure");
  EXPECT_TRUE(names(r, "completed with an error")) << r.at("failure");
  EXPECT_EQ(r.at("faults").size(), 1u);
}

// Three resends 100 us apart: 400 us after the loss, long before the 10 ms of the deadline.
TEST(Faults, ADeadOwnerIsNamedInTime) {
  const Json r = failed("dead_owner");
  EXPECT_TRUE(names(r, "rank 2")) << r.at("failure");
  EXPECT_LE(r.at("failed_at_us").get<double>(), 60 + 400 + 150);
}

TEST(Faults, ALinkThatComesBackIsSurvived) {
  const Json flap = run("link_flap");
  EXPECT_EQ(flap.at("faults").size(), 1u);
  const double without = time_us(run("link_flap", "--set 'fault=[]'"));
  EXPECT_GT(time_us(flap), without + 50);
  EXPECT_LT(time_us(flap), without + 150 + 4 * 100);
}

TEST(Faults, ACorruptedRowIsCaught) {
  const Json r = failed("corrupted_row");
  EXPECT_TRUE(names(r, "the bytes are not those of row")) << r.at("failure");
}

}  // namespace
}  // namespace engram::scenarios
