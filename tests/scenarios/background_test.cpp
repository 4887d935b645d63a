// Other traffic: what loads links alone, and what loads NICs as well.
#include "program.hpp"

namespace engram::scenarios {
namespace {

/// The time of a fetch from rank 0 to rank 1 beside `entry`, and its result.
Json beside(const std::string& entry, const std::string& sets = "") {
  return run("lanes_weighted", "--set fetch.tokens=256 --set cluster.network.service_level=1 " +
                                   sets + "--set 'background=[" + entry + "]' ");
}

TEST(Background, ReadsAndWritesTakeTheirShareOfTheWire) {
  const double alone = beside("").at("logical_gbps");
  for (const char* kind : {"flow", "reads", "writes"}) {
    const std::string entry = std::string("{ kind = \"") + kind + "\", from = 0, to = 1, rate = ";
    const double half = beside(entry + "\"25 GB/s\" }").at("logical_gbps");
    EXPECT_LT(half, 0.9 * alone) << kind;
    EXPECT_GT(half, 0.3 * alone) << kind;
    // The other direction of the cable has room.
    const std::string back = std::string("{ kind = \"") + kind + "\", from = 1, to = 0, rate = ";
    EXPECT_GT(beside(back + "\"25 GB/s\" }").at("logical_gbps"), 0.85 * alone) << kind;
  }
}

// Small reads load the engines long before the wire; a flow of the same bytes does not.
TEST(Background, ReadsLoadTheNicsAndAFlowTheLinksAlone) {
  const std::string small = "--set table.row_bytes=256 --set fetch.tokens=4096 ";
  const std::string entry = "from = 0, to = 1, rate = \"10 GB/s\", message_bytes = 256 }";
  const double alone = time_us(beside("", small));
  const double flow = time_us(beside("{ kind = \"flow\", " + entry, small));
  const double reads = time_us(beside("{ kind = \"reads\", " + entry, small));
  EXPECT_LT(flow, 1.1 * alone);
  EXPECT_GT(reads, 1.3 * alone);  // 39 M reads/s beside the fetch's, of 45 M/s
}

TEST(Background, OfOtherBackendsIsNamedAsIdle) {
  const Json r = run("lanes_weighted", "--backend loopback --set fetch.tokens=16 ");
  EXPECT_EQ(warnings(r,
                     "lanes_weighted.toml:40:1: key 'background[0]' has no effect: the loopback "
                     "backend carries no other traffic"),
            1u)
      << r.at("warnings");
}

TEST(Background, ThatNeverFlowsIsNamed) {
  const auto idle = [](const std::string& times, const std::string& why) {
    const Json r =
        beside("{ kind = \"flow\", from = 0, to = 1, rate = \"1 GB/s\", " + times + " }");
    EXPECT_EQ(warnings(r, "key 'background[0]' has no effect: " + why), 1u) << r.at("warnings");
  };
  for (const char* kind : {"flow", "reads", "writes"}) {
    const Json r = beside(std::string("{ kind = \"") + kind +
                          "\", from = 0, to = 1, rate = \"1 GB/s\", start = \"1 s\" }");
    EXPECT_EQ(warnings(r,
                       "key 'background[0]' has no effect: it begins at 1000000.000 us, the run "
                       "ended at "),
              1u)
        << r.at("warnings");
  }
  idle("stop = \"1 ns\"", "nothing of the run was under way between its start and its stop");
  const Json itself = beside("{ from = 1, to = 1, rate = \"1 GB/s\" }");
  EXPECT_EQ(warnings(itself, "key 'background[0]' has no effect: from and to are both rank 1"), 1u)
      << itself.at("warnings");
  // One that flows for a while is none.
  const Json flows = beside("{ from = 0, to = 1, rate = \"1 GB/s\", stop = \"100 us\" }");
  EXPECT_EQ(warnings(flows, "'background[0]' has no effect"), 0u) << flows.at("warnings");
}

TEST(Background, ALaneThatIsNotMappedIsNamedAtItsKey) {
  const Ended ended = engram("run " + scenario("lanes_weighted") +
                             " --set 'background=[{ from = 0, to = 1, rate = \"1 GB/s\", "
                             "service_level = 7 }]'");
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("key 'background[0].service_level': service level 7 has no lane"),
            std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace engram::scenarios
