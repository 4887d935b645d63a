// Stands in for the framework in tests of the command line: results follow from the scenario by
// simple formulas, and `run.seed` asks for what goes wrong.
#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "engram/tools/machine.hpp"
#include "engram/tools/run.hpp"
#include "sample_result.hpp"

namespace engram::tools {

namespace {
constexpr std::uint64_t kWrongBytes = 666, kFault = 667, kNoMachine = 668, kCrash = 669,
                        kInterrupted = 670, kSlow = 671;
}

Result<RunResult> run_scenario(const Scenario& scenario, RunObserver& observer) {
  const auto seed = scenario.run.seed;
  if (seed == kNoMachine) return fail(ErrorCode::unsupported, "nccl: no GPU on this machine");
  if (seed == kCrash) std::abort();
  if (seed == kSlow) std::this_thread::sleep_for(std::chrono::seconds(10));
  if (seed == kInterrupted) {
    if (observer.trace) observer.trace->instant({Rank{0}, TrackKind::qp, 0}, "ring", Nanos{1});
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(10));
  }
  auto result = tests::sample_result();
  result.operation = name_of(scenario.run.operation);
  result.backend = scenario.run.backend;
  result.profile = scenario.cluster.profile;
  result.ranks = scenario.num_ranks();
  result.seed = seed;
  result.verified = scenario.run.check ? std::optional(seed != kWrongBytes) : std::nullopt;
  result.time.median = Nanos{scenario.fetch.tokens * 500 + scenario.num_ranks() * 1000};
  result.time.min = result.time.max = result.time.median;
  if (seed == kFault) result.failure = "rank 3, peer 1, QP 0: 12 of 64 reads missing after 100 s";
  for (std::uint32_t i = 0; i < scenario.run.repeat; ++i) {
    if (observer.on_progress) observer.on_progress(i + 1, scenario.run.repeat);
  }
  if (observer.trace) {
    const Track qp{Rank{0}, TrackKind::qp, 2};
    const TraceArg args[] = {{"seed", static_cast<std::int64_t>(seed)}};
    observer.trace->span(qp, "read", Nanos{1500}, Nanos{250}, args);
    observer.trace->flow_start(qp, 1, Nanos{1500});
    observer.trace->span({Rank{1}, TrackKind::nic, 0}, "serve", Nanos{2000}, Nanos{10});
    observer.trace->flow_end({Rank{1}, TrackKind::nic, 0}, 1, Nanos{2005});
    observer.trace->instant(qp, "ring", Nanos{static_cast<std::int64_t>(seed)});
  }
  return result;
}

Result<PlanResult> plan_scenario(const Scenario& scenario) {
  return PlanResult{fmt::format("plan of a fetch on {} ranks", scenario.num_ranks()),
                    {{"fetch", "qps", 8, "", "ceil(45 M/s x 10 us / 16 / 4 peers)", "message_rate"},
                     {"buffers", "receive", 3145728, "B", "512 tokens x 24 rows x 256 B", ""}},
                    {}};
}

Result<int> launch_job(std::uint32_t num_ranks, const std::vector<std::string>& argv,
                       const Environment& environment,
                       const std::function<void(std::string_view)>& explain) {
  if (argv[0] == "missing") return fail(ErrorCode::not_found, "missing is not on PATH");
  if (!environment.host.variables.contains("PATH")) return fail(ErrorCode::internal, "no PATH");
  if (argv.size() > 1) explain(fmt::format("rank {} of {}: {}", num_ranks - 1, num_ranks, argv[1]));
  return argv.size() > 1 ? 7 : 0;
}

Result<MachineReport> examine_machine(const Environment&) {
  return MachineReport{"no GPU\n", "{}\n", false};
}

Result<BenchOutcome> bench_fetch(const BenchRequest& request, const Environment&,
                                 const std::function<void(std::string_view)>& line) {
  if (request.device == 9) return fail(ErrorCode::unsupported, "no GPU 9");
  line("rows us\n");
  line(fmt::format("{} 1.0\n", request.repeats));
  return BenchOutcome{"[]\n", request.only == "wrong" ? 3u : 0u, {"host: no memory"}};
}

}  // namespace engram::tools
