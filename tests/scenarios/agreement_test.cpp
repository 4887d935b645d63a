// The fidelities agree in total time, and the same seed gives the same trace.
#include <cmath>

#include "program.hpp"

namespace engram::scenarios {
namespace {

struct Case {
  const char* name;
  const char* sets;
};

class Fidelities : public testing::TestWithParam<Case> {};

TEST_P(Fidelities, AgreeWithinTenPerCent) {
  const std::string sets = std::string(GetParam().sets) + " --set run.fidelity=";
  const double message = time_us(run(GetParam().name, sets + "message"));
  const double batch = time_us(run(GetParam().name, sets + "batch"));
  const double flow = time_us(run(GetParam().name, sets + "flow"));
  EXPECT_NEAR(batch / message, 1, 0.10) << message << " and " << batch;
  EXPECT_NEAR(flow / message, 1, 0.10) << message << " and " << flow;
  EXPECT_NEAR(flow / batch, 1, 0.10) << batch << " and " << flow;
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, Fidelities,
    testing::Values(Case{"default_v25", "--set cluster.nodes=2 --set run.repeat=1"},
                    Case{"incast", ""},
                    Case{"sweep_nodes", "--set cluster.nodes=4"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Determinism, TheSameSeedGivesTheSameTrace) {
  const auto trace = [](const std::string& seed, const std::string& file) {
    const std::string path = scratch(file);
    const Ended ended = engram("run " + scenario("quickstart") +
                               " --set fetch.tokens=32 --set run.repeat=1 --seed " + seed +
                               " --trace " + path);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return read_file(path);
  };
  const std::string first = trace("7", "a.json");
  EXPECT_GT(first.size(), 100'000u);
  EXPECT_TRUE(first == trace("7", "b.json"));
  EXPECT_FALSE(first == trace("8", "c.json"));
}

}  // namespace
}  // namespace engram::scenarios
