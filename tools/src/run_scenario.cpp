#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "backend_table.hpp"
#include "engram/model/topology_text.hpp"
#include "engram/tools/run.hpp"
#include "explain.hpp"
#include "fetch_run.hpp"

#ifndef ENGRAM_VERSION
#define ENGRAM_VERSION "unknown"
#endif

namespace engram::tools {
namespace {

/// Runs of more network reads than these are too long event by event on a laptop.
constexpr std::uint64_t kMostByMessage = 1'000'000, kMostByBatch = 8'000'000;
/// Receive buffers above this are not kept: rows are checked as they arrive.
constexpr Bytes kMostKept = 64 * kMiB;

struct ChosenFidelity {
  Fidelity fidelity;
  std::string reason;
};

ChosenFidelity choose_fidelity(const Scenario& scenario, std::uint64_t reads) {
  if (scenario.run.backend != "sim") return {Fidelity::message, "the only one of this backend"};
  if (scenario.run.fidelity != Fidelity::automatic) return {scenario.run.fidelity, "asked for"};
  if (reads <= kMostByMessage)
    return {Fidelity::message, fmt::format("{} reads, up to a million", reads)};
  if (reads <= kMostByBatch)
    return {Fidelity::batch, fmt::format("{} reads, over a million", reads)};
  return {Fidelity::flow, fmt::format("{} reads, over eight million", reads)};
}

/// Errors: unsupported, when the run needs more memory than the machine has.
Result<void> check_memory(const Scenario& scenario, const FetchSetup& setup, std::uint32_t ranks,
                          Bytes kept) {
  // An index, a routed read, a recorded operation and its request, for each read at a time.
  constexpr Bytes kEachRead{200};
  const long double stored =
      setup.options.segment ? 0
                            : static_cast<long double>(setup.table.segment_bytes().count) * ranks;
  const long double need = stored + static_cast<long double>(kept.count) +
                           static_cast<long double>(setup.largest.count()) * ranks *
                               static_cast<long double>(kEachRead.count);
  const auto have = static_cast<long double>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<long double>(sysconf(_SC_PAGESIZE));
  if (need <= have) return {};
  return fail(ErrorCode::unsupported, scenario.path.empty() ? "this scenario" : scenario.path,
              ": needs about ", static_cast<std::uint64_t>(need / 1e9L), " GB here (rows stored ",
              static_cast<std::uint64_t>(stored / 1e9L), " GB, received ",
              kept.count / 1'000'000'000, " GB), this machine has ",
              static_cast<std::uint64_t>(have / 1e9L),
              " GB; fewer fetch.tokens or ranks, or table.contents = \"generated\"");
}

/// Failures of the run itself, which have a result; everything else is bad input or machine.
bool is_failure_of_run(ErrorCode code) {
  return code == ErrorCode::timed_out || code == ErrorCode::deadlock ||
         code == ErrorCode::peer_lost || code == ErrorCode::wrong_bytes;
}

}  // namespace

Result<RunResult> run_scenario(const Scenario& scenario, RunObserver& observer) {
  if (scenario.run.operation != Operation::fetch) {
    return fail(ErrorCode::invalid_argument, scenario.where("run.operation"), ": '",
                name_of(scenario.run.operation), "' has no runner yet; accepted: fetch");
  }
  auto platform = make_platform(scenario);
  if (!platform) return tl::unexpected(platform.error());
  auto setup = make_fetch_setup(scenario, *platform);
  if (!setup) return tl::unexpected(setup.error());
  auto workload = Workload::create(scenario);
  if (!workload) return tl::unexpected(workload.error());

  const std::uint32_t ranks = platform->grid.num_ranks();
  const ChosenFidelity chosen =
      choose_fidelity(scenario, setup->largest.count() * ranks * scenario.run.repeat);
  const Bytes kept = ranks * core::EngramTable::receive_bytes(setup->table, setup->largest);
  const bool stream = scenario.run.backend == "sim" && kept > kMostKept;
  if (auto fits = check_memory(scenario, *setup, ranks, stream ? Bytes{0} : kept); !fits) {
    return tl::unexpected(fits.error());
  }
  FetchRun run(scenario, *setup, *workload, ranks, stream, observer);

  BackendNeeds needs;
  needs.fidelity = chosen.fidelity;
  needs.trace = observer.trace;
  needs.tracing = &run.tracing();
  needs.table = &setup->table;
  needs.measured = std::make_shared<std::function<void(bool)>>();
  run.set_measured(needs.measured);
  needs.until_failure = std::make_shared<core::BackendStats>();
  if (stream) {
    needs.row_check = [&run](Rank rank, std::uint64_t offset, std::span<const std::byte> row) {
      return run.row_arrived(rank, offset, row);
    };
  }
  auto made = make_backend(scenario, *platform, needs);
  if (!made) return tl::unexpected(made.error());

  // Numbers that the backend refuses, said before anything starts and with their place.
  auto plan = core::EngramTable::plan(platform->grid, setup->table, setup->largest,
                                      made->backend->capabilities().limits, setup->options);
  if (!plan) return at_key(scenario, plan_key(plan.error()), plan.error());

  const std::clock_t cpu = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  const auto stats =
      made->backend->run([&](core::Transport& transport) { return run.rank_main(transport); });
  const auto end = std::chrono::steady_clock::now();
  if (!stats && !is_failure_of_run(stats.error().code)) return tl::unexpected(stats.error());
  if (stats && made->gather) {
    const auto samples = made->gather(run.samples_of(*made->rank));
    if (!samples) return tl::unexpected(samples.error());
    if (auto taken = run.take_samples(*samples); !taken) return tl::unexpected(taken.error());
  }

  RunResult result;
  result.operation = name_of(scenario.run.operation);
  result.backend = scenario.run.backend;
  result.profile = scenario.cluster.profile;
  result.fidelity = name_of(chosen.fidelity);
  result.fidelity_reason = chosen.reason;
  result.ranks = ranks;
  result.seed = scenario.run.seed;
  result.version = ENGRAM_VERSION;
  if (scenario.run.check) result.verified = stats.has_value();
  result.wall = end - begin;
  result.cpu = std::chrono::microseconds((std::clock() - cpu) * 1'000'000 / CLOCKS_PER_SEC);
  if (!stats) result.failure = stats.error().message;
  explain(scenario, *platform, *setup, run.measured(), stats ? *stats : *needs.until_failure,
          result);
  if (observer.trace != nullptr && scenario.run.backend != "sim") {
    for (const StageSpan& span : result.timeline) {
      observer.trace->span({span.rank, TrackKind::stage, 0}, span.stage, span.start,
                           span.end - span.start);
    }
  }
  return result;
}

}  // namespace engram::tools
