// Exercises NCCL's public device API, operation by operation, against expected bytes, and measures.
// One process a rank, forked here; which plugin serves it is up to the environment (see
// backends/gin_plugin/README.md). Prints one JSON line a finding; exit status 0 = all right.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "probe/tests.hpp"

namespace {

using namespace gin_probe;

int run_rank(const Options& o, int rank) {
  if (o.hosts > 1) {
    setenv("NCCL_HOSTID", ("node" + std::to_string(rank * o.hosts / o.ranks)).c_str(), 1);
    setenv("NCCL_MNNVL_ENABLE", "0", 1);
  }
  // Loading a kernel waits for those that run, which may wait for the plugin, whose own calls wait
  // for the load: so all are loaded at the start.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  Session session(o, rank);
  session.connect();
  auto wants = [&](const char* what) {
    return ("," + o.run + ",").find(std::string(",") + what + ",") != std::string::npos;
  };
  if (wants("ops")) {
    for (const int contexts : {1, 2, 3, 4, 8}) {
      operations(session, contexts, false);
      if (contexts == 1 || contexts == 4) operations(session, contexts, true);
    }
  }
  if (wants("rail")) {
    for (const int contexts : {1, 4}) operations(session, contexts, true);
  }
  if (wants("quick")) operations(session, 2, false);
  if (wants("speed")) speed(session);
  if (wants("crowd")) crowd(session);
  if (wants("graph")) graph(session);
  if (wants("mixed")) mixed(session);
  if (wants("segments")) segments(session);
  if (wants("churn")) churn(session);
  if (wants("killed")) killed(session);
  if (wants("errors")) errors(session);
  session.disconnect();
  session.say("{\"done\":true,\"failures\":%d}", session.failures());
  return session.failures() == 0 ? 0 : 1;
}

/// The worst exit status of the children; a rank that `killed` kills is meant to die.
int wait_for_all(std::size_t children, bool one_dies) {
  int worst = 0;
  for (; children > 0; --children) {
    int status = 0;
    wait(&status);
    const bool meant_to_die = WIFSIGNALED(status) && one_dies;
    const int code = meant_to_die        ? 0
                     : WIFEXITED(status) ? WEXITSTATUS(status)
                                         : 128 + WTERMSIG(status);
    worst = std::max(worst, code);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("NCCL's device API through whatever serves GIN here, against expected bytes");
  app.add_option("--ranks", o.ranks, "processes");
  app.add_option("--gpus", o.gpus, "GPUs that they share");
  app.add_option(
      "--run", o.run,
      "of ops, rail, quick, speed, crowd, graph, mixed, segments, churn, killed, errors");
  app.add_option("--seconds", o.seconds, "of mixed");
  app.add_option("--rounds", o.rounds, "of churn");
  app.add_option("--hosts", o.hosts, "as which the ranks appear to NCCL");
  app.add_option("--seed", o.seed, "of mixed");
  CLI11_PARSE(app, argc, argv);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gin_probe." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  o.id_file = folder / "id";
  std::size_t children = 0;
  for (int rank = 0; rank < o.ranks; ++rank, ++children) {
    if (fork() == 0) std::_Exit(run_rank(o, rank));
  }
  const int worst = wait_for_all(children, o.run == "killed");
  std::filesystem::remove_all(folder);
  return worst;
}
