// The environment's names, and that the generated pages in docs/ are current.
#include "engram/tools/environment.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "engram/tools/scenario.hpp"

namespace engram::tools {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Docs, AreCurrent) {
  EXPECT_EQ(read_file(ENGRAM_SOURCE "/docs/scenario.md"), scenario_reference());
  EXPECT_EQ(read_file(ENGRAM_SOURCE "/docs/environment.md"), environment_reference());
}

Result<Environment> environment_of(std::map<std::string, std::string> variables) {
  return read_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Environment, IsReadByName) {
  const auto e = environment_of({{"ENGRAM_SERVICE_LEVEL", "5"},
                                 {"ENGRAM_GIN", "off"},
                                 {"RANK", "3"},
                                 {"WORLD_SIZE", "8"},
                                 {"MASTER_ADDR", "node0"},
                                 {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_EQ(e->service_level, 5u);
  EXPECT_FALSE(e->host.gin);
  ASSERT_TRUE(e->job);
  EXPECT_EQ(e->job->rank, Rank{3});
  EXPECT_EQ(e->job->launcher, rendezvous::Launcher::torchrun);
  EXPECT_FALSE(e->host.nccl_newer);
  EXPECT_TRUE(environment_of({{"ENGRAM_NCCL_NEWER", "on"}})->host.nccl_newer);
}

// What the tools take for a job and what joins it come from one table: also PMI and Slurm's steps.
TEST(Environment, KnowsEveryLauncherOfTheRendezvous) {
  for (const auto& names : rendezvous::launcher_variables()) {
    const auto e =
        environment_of({{std::string(names.rank), "1"}, {std::string(names.num_ranks), "2"}});
    ASSERT_TRUE(e && e->job) << names.rank;
    EXPECT_EQ(e->job->launcher, names.launcher);
    EXPECT_EQ(e->job->rank, Rank{1});
    const auto half = environment_of({{std::string(names.rank), "1"}});
    EXPECT_TRUE(half && !half->job) << "a simulation runs all the same";
  }
}

TEST(Environment, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(environment_of({{"ENGRAM_SERVICE_LEVEL", "16"}}).error().message,
            "environment variable ENGRAM_SERVICE_LEVEL: \"16\"; accepted: an integer from 0 to 15");
  EXPECT_EQ(environment_of({{"ENGRAM_GIN", "maybe"}}).error().message,
            "environment variable ENGRAM_GIN: \"maybe\"; accepted: on, off");
  EXPECT_EQ(environment_of({{"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "4"}}).error().message,
            "environment variable: SLURM_PROCID='4' is not a number below 4");
}

}  // namespace
}  // namespace engram::tools
