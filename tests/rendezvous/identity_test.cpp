#include "engram/rendezvous/identity.hpp"

#include <gtest/gtest.h>

#include <map>

namespace engram::rendezvous {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Result<Identity> identity_with(const Variables& variables) {
  return identity_from([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Identity, NothingSetIsOneRank) {
  const auto id = identity_with({{"RANK", ""}, {"WORLD_SIZE", ""}, {"ENGRAM_RANK", ""}});
  ASSERT_TRUE(id) << id.error().message;  // empty is unset
  EXPECT_EQ(id->launcher, Launcher::single);
  EXPECT_EQ(id->num_ranks, 1u);
}

TEST(Identity, Torchrun) {
  const auto id = identity_with({{"RANK", "9"},
                                 {"WORLD_SIZE", "16"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "8"},
                                 {"MASTER_ADDR", "node7"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_RUN_ID", "job"},
                                 {"ENGRAM_SECRET", "s"}});
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id->launcher, Launcher::torchrun);
  EXPECT_EQ(id->rank, Rank{9});
  EXPECT_EQ(id->num_ranks, 16u);
  EXPECT_EQ(id->local_rank, 1u);
  EXPECT_EQ(id->num_local_ranks, 8u);
  EXPECT_EQ(id->host, "node7");
  EXPECT_EQ(id->port, 29501);
  EXPECT_EQ(id->job_id, "job");
}

TEST(Identity, MpirunOnOneHostNeedsNothingElse) {
  const auto at = [](const char* rank) {
    return identity_with({{"OMPI_COMM_WORLD_RANK", rank},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                          {"PMIX_NAMESPACE", "prte-123@1"}});
  };
  ASSERT_TRUE(at("0")) << at("0").error().message;
  EXPECT_EQ(at("0")->launcher, Launcher::open_mpi);
  EXPECT_EQ(at("0")->host, "127.0.0.1");
  EXPECT_EQ(at("0")->port, at("3")->port) << "the ranks must meet";
  EXPECT_GE(at("0")->port, 20000);
  EXPECT_EQ(at("3")->rank, Rank{3});
}

TEST(Identity, MpirunOnSeveralHostsAsksForAnAddress) {
  Variables variables{{"OMPI_COMM_WORLD_RANK", "0"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const auto without = identity_with(variables);
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message.find("set ENGRAM_RENDEZVOUS=HOST:PORT"), std::string::npos);
  variables["ENGRAM_RENDEZVOUS"] = "[fe80::1]:900";
  const auto open = identity_with(variables);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find("without a secret: set ENGRAM_SECRET"), std::string::npos);
  variables["ENGRAM_SECRET"] = "s";
  const auto with = identity_with(variables);
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(with->host, "fe80::1");
  EXPECT_EQ(with->port, 900);
}

TEST(Identity, PmiAndSlurm) {
  const auto pmi = identity_with(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(pmi) << pmi.error().message;
  EXPECT_EQ(pmi->launcher, Launcher::pmi);

  const auto slurm_with = [](const char* nodes) {
    return identity_with({{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_NODELIST", nodes},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "2"},
                          {"ENGRAM_SECRET", "s"}});
  };
  const auto slurm = slurm_with("gpu[03-07,12],login");
  ASSERT_TRUE(slurm) << slurm.error().message;
  EXPECT_EQ(slurm->launcher, Launcher::slurm);
  EXPECT_EQ(slurm->host, "gpu03");
  EXPECT_EQ(slurm->job_id, "77.2");
  EXPECT_EQ(slurm_with("a1,b2")->host, "a1");
  EXPECT_EQ(slurm_with("only")->host, "only");
  EXPECT_EQ(slurm_with("n[7]")->host, "n7");
}

// A shell inside a Slurm allocation, or a torchrun below mpirun: the innermost launcher counts.
TEST(Identity, OurOwnLauncherWins) {
  const auto id = identity_with({{"ENGRAM_RANK", "0"},
                                 {"ENGRAM_NUM_RANKS", "2"},
                                 {"ENGRAM_LOCAL_RANK", "0"},
                                 {"ENGRAM_NUM_LOCAL_RANKS", "2"},
                                 {"ENGRAM_RENDEZVOUS", "127.0.0.1:5"},
                                 {"ENGRAM_RENDEZVOUS_FD", "9"},
                                 {"ENGRAM_SECRET", "s"},
                                 {"SLURM_PROCID", "3"},
                                 {"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id->launcher, Launcher::engram_launch);
  EXPECT_EQ(id->listen_fd, 9);
}

// Half a job is no process alone: what is missing is named, whichever half and launcher it is.
TEST(Identity, HalfSetVariablesAreRefused) {
  const std::string tail = " is not: set both to join a job, neither for one process alone";
  for (const auto& [one, other] :
       {std::pair{"ENGRAM_RANK", "ENGRAM_NUM_RANKS"}, std::pair{"RANK", "WORLD_SIZE"},
        std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        std::pair{"PMI_RANK", "PMI_SIZE"}}) {
    for (const auto& [set, missing] : {std::pair{one, other}, std::pair{other, one}}) {
      const auto id = identity_with({{set, "1"}, {missing, ""}});
      ASSERT_FALSE(id) << set;
      EXPECT_EQ(id.error().code, ErrorCode::invalid_argument);
      EXPECT_EQ(id.error().message, std::string(set) + " is set but " + missing + tail);
    }
  }
  // A whole pair of another launcher decides; Slurm's shells hold one variable by right.
  const auto whole = identity_with({{"WORLD_SIZE", "7"},
                                    {"OMPI_COMM_WORLD_RANK", "1"},
                                    {"OMPI_COMM_WORLD_SIZE", "2"},
                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->launcher, Launcher::open_mpi);
  EXPECT_TRUE(identity_with({{"SLURM_NTASKS", "4"}}));
  EXPECT_TRUE(identity_with({{"SLURM_PROCID", "0"}}));
}

TEST(Identity, WrongTextsAreNamed) {
  EXPECT_EQ(identity_with({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).error().message,
            "RANK='x' is not a number below 2");
  EXPECT_EQ(identity_with({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).error().message,
            "RANK='2' is not a number below 2");
  EXPECT_EQ(identity_with({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).error().message,
            "RANK is set but WORLD_SIZE is 0");
  EXPECT_EQ(identity_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"ENGRAM_RENDEZVOUS", "here"}})
                .error()
                .message,
            "ENGRAM_RENDEZVOUS='here' is not HOST:PORT");
  EXPECT_EQ(
      identity_with(
          {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}})
          .error()
          .message,
      "LOCAL_RANK=3 is not below LOCAL_WORLD_SIZE=2");
}

}  // namespace
}  // namespace engram::rendezvous
