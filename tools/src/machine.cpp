#include "engram/tools/machine.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "engram/rendezvous/launch.hpp"
#include "engram/rendezvous/rank_output.hpp"
#include "gin_plugin_choice.hpp"
#ifdef ENGRAM_HAVE_CUDA
#include "engram/bench/bench_fetch.hpp"
#endif
#ifdef ENGRAM_HAVE_NCCL
#include "engram/bench/bench_stream.hpp"
#include "engram/nccl/nccl_backend.hpp"
#include "nccl_options.hpp"
#endif

namespace engram::tools {

Result<int> launch_job(std::uint32_t num_ranks, const std::vector<std::string>& argv,
                       const Environment& environment,
                       const std::function<void(std::string_view)>& explain) {
  rendezvous::LaunchOptions options;
  options.num_ranks = num_ranks;
  options.argv = argv;
  for (const auto& [name, value] : environment.host.variables) {
    options.environment.push_back(name + "=" + value);
  }
  const auto plugin = choose_gin_plugin(environment.host, look_around(this_program()));
  for (const auto& [name, value] : plugin.variables) {
    options.environment.push_back(name + "=" + value);
  }
  if (!plugin.said.empty()) explain(plugin.said);
  rendezvous::RankOutput output(options.num_ranks);
  options.sink = std::ref(output);
  const auto outcome = rendezvous::launch_local(options);
  output.finish();
  if (!outcome) return tl::unexpected(outcome.error());
  if (outcome->exit_status != 0) explain(outcome->explanation);
  return outcome->exit_status;
}

#ifdef ENGRAM_HAVE_NCCL
Result<MachineReport> examine_machine(const Environment& environment) {
  nccl::DoctorInput input;
  input.environment = nccl_variables(environment.host);
  input.library = nccl_library(environment.host);
  input.plugin_nearby = look_around(this_program()).plugin;
  nccl::Report report = nccl::examine(input);
  if (report.usable()) {
    // Paths between ranks are what a communicator over all GPUs says of itself.
    const auto settings = nccl::settings_from(input.environment);
    if (!settings) return tl::unexpected(settings.error());
    nccl::NcclOptions options;
    options.library = input.library;
    options.settings = *settings;
    std::vector<int> devices;
    for (const nccl::DeviceFacts& device : report.devices) devices.push_back(device.index);
    const auto facts = nccl::probe_communicator(devices, options);
    if (facts) {
      report.communicator = *facts;
    } else {
      report.communicator_problem = facts.error().message;
    }
  }
  nccl::diagnose(report);
  return MachineReport{nccl::to_text(report), nccl::to_json(report).dump(2) + "\n",
                       report.usable()};
}
#else
Result<MachineReport> examine_machine(const Environment&) {
  return fail(ErrorCode::unsupported, "this build has no nccl backend: it was made without nvcc ",
              "or NCCL, and cmake said what to install; sim and loopback run everywhere");
}
#endif

#ifdef ENGRAM_HAVE_CUDA
namespace {

/// A machine without a GPU is no fault of the benchmark.
Error as_unsupported(Error error) {
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::unsupported;
  return error;
}

#ifdef ENGRAM_HAVE_NCCL
/// Fetches through StreamFetch, appended to `report`; where NCCL cannot, a line says so.
Result<void> add_stream_cases(const BenchRequest& request, const Environment& environment,
                              const bench::BenchFetchOptions& fetch,
                              bench::BenchFetchReport& report) {
  const auto settings = nccl::settings_from(nccl_variables(environment.host));
  if (!settings) return tl::unexpected(settings.error());
  bench::BenchStreamOptions options;
  options.devices = {request.device};
  if (request.peer >= 0) options.devices.push_back(request.peer);
  options.nccl.library = nccl_library(environment.host);
  options.nccl.settings = *settings;
  options.host_table = std::min(options.host_table, fetch.host_table);
  options.repeats = request.repeats;
  options.assist_threads = request.assist_threads;
  options.on_measurement = fetch.on_measurement;
  auto more = bench::bench_stream(options);
  if (!more && more.error().code == ErrorCode::unsupported) {
    report.skipped.push_back("stream: " + more.error().message);
    return {};
  }
  if (!more) return tl::unexpected(more.error());
  std::ranges::move(more->measurements, std::back_inserter(report.measurements));
  std::ranges::move(more->skipped, std::back_inserter(report.skipped));
  return {};
}
#endif

}  // namespace

Result<BenchOutcome> bench_fetch(const BenchRequest& request,
                                 [[maybe_unused]] const Environment& environment,
                                 const std::function<void(std::string_view)>& line) {
  bench::BenchFetchOptions options;
  options.device = request.device;
  options.peer = request.peer;
  options.host_table = {
      static_cast<std::uint64_t>(request.host_gib * static_cast<double>(kGiB.count))};
  options.repeats = request.repeats;
  options.assist_threads = request.assist_threads;
  options.only = request.only;
  bool headed = false;  // nothing to measure: no head either
  options.on_measurement = [&](const bench::Measurement& m) {
    if (!std::exchange(headed, true)) line(bench::table_head());
    line(bench::to_line(m));
  };
  auto report = bench::bench_fetch(options);
  if (!report) return tl::unexpected(as_unsupported(report.error()));
#ifdef ENGRAM_HAVE_NCCL
  if (std::string_view("stream").find(request.only) != std::string_view::npos) {
    if (auto added = add_stream_cases(request, environment, options, *report); !added) {
      return tl::unexpected(added.error());
    }
  }
#endif
  if (report->measurements.empty() && report->skipped.empty()) {
    return fail(ErrorCode::invalid_argument, "--only: no group's name contains '", request.only,
                "'; there are ", bench::group_names(), ", stream");
  }
  BenchOutcome outcome{bench::to_json(*report).dump(1) + "\n", 0, report->skipped};
  for (const auto& m : report->measurements) outcome.wrong_bytes += m.wrong_bytes.value_or(0);
  return outcome;
}
#else
Result<BenchOutcome> bench_fetch(const BenchRequest&, const Environment&,
                                 const std::function<void(std::string_view)>&) {
  return fail(ErrorCode::unsupported, "this build has no CUDA kernels: it was made without nvcc, ",
              "and cmake said what to install");
}
#endif

}  // namespace engram::tools
