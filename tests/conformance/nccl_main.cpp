// nccl_conformance_test [--ranks N] [--processes] [--case-times] [gtest flags]: the suite on this
// machine's GPUs. --case-times tells each generated case before it runs, and its seconds.
// Exit status 3: the machine cannot.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>

#include "conformance/nccl_job.hpp"
#include "engram/nccl/doctor.hpp"
#include "engram/rendezvous/launch.hpp"
#include "engram/rendezvous/rank_output.hpp"

extern char** environ;

namespace engram::test {

NcclJob& nccl_job() {
  static NcclJob job;
  return job;
}

Result<core::Backend*> NcclJob::backend(core::Mode mode) {
  auto& kept = backends[mode];
  if (kept == nullptr) {
    nccl::NcclOptions how = options;
    how.device_options.mode = mode;
    std::vector<int> devices;
    for (std::uint32_t r = 0; r < num_ranks; ++r) devices.push_back(static_cast<int>(r));
    auto made = processes ? nccl::make_nccl(*ranks, how) : nccl::make_nccl_local(devices, how);
    if (!made) return tl::unexpected(made.error());
    kept = std::move(*made);
  }
  return kept.get();
}

namespace {

constexpr int kCannot = 3;

std::optional<std::string> variable(std::string_view name) {
  const char* text = std::getenv(std::string(name).c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

int launch(std::uint32_t num_ranks, char** argv) {
  rendezvous::LaunchOptions options;
  options.num_ranks = num_ranks;
  options.argv = {"/proc/self/exe"};
  for (char** word = argv + 1; *word != nullptr; ++word) options.argv.emplace_back(*word);
  constexpr std::string_view kParams = "RC_PARAMS=";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(kParams)) options.environment.emplace_back(*entry);
  }
  // Properties draw the same cases on all ranks.
  std::string params = variable("RC_PARAMS").value_or("");
  if (params.find("seed=") == std::string::npos) {
    params = "seed=" + std::to_string(std::time(nullptr)) + " " + params;
  }
  std::cout << kParams << '"' << params << '"' << std::endl;
  options.environment.push_back(std::string(kParams) + params);
  rendezvous::RankOutput output(options.num_ranks);
  options.sink = std::ref(output);
  const auto outcome = rendezvous::launch_local(options);
  output.finish();
  if (!outcome) return std::cerr << outcome.error().message << '\n', 1;
  if (outcome->exit_status != 0) std::cerr << outcome->explanation << '\n';
  return outcome->exit_status;
}

int run(int argc, char** argv) {
  std::uint32_t num_ranks = 1;
  bool processes = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--processes") == 0) processes = true;
    if (std::strcmp(argv[i], "--case-times") == 0) nccl_job().case_times = true;
    if (std::strcmp(argv[i], "--ranks") == 0 && i + 1 < argc) {
      num_ranks = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    }
  }
  const bool worker = variable(rendezvous::variable::kRank).has_value();
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess || devices < static_cast<int>(num_ranks)) {
    std::cout << "skipped: " << num_ranks << " ranks need as many GPUs, here are " << devices
              << (counted == cudaSuccess ? "" : std::string(": ") + cudaGetErrorString(counted))
              << '\n';
    return kCannot;
  }
  if (processes && num_ranks > 1 && !worker) return launch(num_ranks, argv);

  NcclJob& job = nccl_job();
  job.num_ranks = num_ranks;
  job.processes = processes && num_ranks > 1;
  nccl::Environment environment;
  for (const char* name : {"NCCL_SYM_REUSE_SYSMEM_HANDLES", "NCCL_ELASTIC_BUFFER_REGISTER"}) {
    if (const auto text = variable(name)) environment[name] = *text;
  }
  const auto settings = nccl::settings_from(environment);
  if (!settings) return std::cerr << settings.error().message << '\n', 2;
  job.options.settings = *settings;
  job.options.library.path = variable("ENGRAM_NCCL_LIBRARY");
  job.host_hybrid = settings->reuse_sysmem_handles;
  if (job.processes) {
    const auto identity = rendezvous::identity_from(variable);
    if (!identity) return std::cerr << identity.error().message << '\n', 2;
    job.options.device = static_cast<int>(identity->local_rank);
    auto joined = rendezvous::Rendezvous::join(*identity, {});
    if (!joined) return std::cerr << joined.error().message << '\n', 1;
    job.ranks = std::make_unique<rendezvous::Rendezvous>(std::move(*joined));
  }
  if (const auto first = job.backend(core::Mode::direct); !first) {
    std::cout << "skipped: " << first.error().message << '\n';
    return first.error().code == ErrorCode::unsupported ? kCannot : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  job.backends.clear();  // collective, while the ranks still meet
  job.ranks.reset();
  return result;
}

}  // namespace
}  // namespace engram::test

int main(int argc, char** argv) { return engram::test::run(argc, argv); }
