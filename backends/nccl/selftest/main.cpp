// nccl_selftest: the host half of the nccl backend on the GPUs of this machine, as JSON.
//
//   nccl_selftest --ranks 2 [--nccl /path/libnccl.so.2]   starts two ranks of itself, twice: for
//                                                         elastic and for hybrid windows
//   nccl_selftest --doctor                                what this machine can do
//
// Exit status: 0 right, 1 a check failed, 2 bad arguments, 3 this machine cannot.
#include <cuda_runtime.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "checks.hpp"
#include "engram/nccl/doctor.hpp"
#include "engram/rendezvous/launch.hpp"
#include "engram/rendezvous/rank_output.hpp"

extern char** environ;

namespace {

using namespace engram;
using namespace engram::nccl;
using nlohmann::json;

struct Arguments {
  std::uint32_t ranks = 2;
  std::string nccl;
  bool worker = false, doctor = false, text = false;
  double limit_s = 150;
};

Environment read_environment() {
  Environment found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("NCCL_") || text.starts_with("CUDA_")) {
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return found;
}

LibraryOptions library_of(const Arguments& arguments) {
  LibraryOptions options;
  if (!arguments.nccl.empty()) options.path = arguments.nccl;
  return options;
}

/// Fills `out` check by check, so that those before a failure are told.
Result<void> run_checks(const selftest::Machine& machine, const CommunicatorOptions& options,
                        Report& report, json& out) {
  const auto with_communicator = [&](auto&& check) -> Result<json> {
    auto communicator = Communicator::create(machine.library, *machine.ranks, options);
    if (!communicator) return tl::unexpected<Error>(communicator.error());
    report.communicator = CommunicatorFacts{
        facts_of(communicator->properties()), communicator->grid().num_nvlink,
        communicator->properties().multimemSupport, communicator->properties().hostRmaSupport};
    if (const auto opened = communicator->open_device(); !opened) {
      return tl::unexpected<Error>(opened.error());
    }
    return check(*communicator);
  };
  using core::WindowKind;
  const WindowShape elastic{WindowKind::elastic, 32 * kMiB, 64 * kMiB};
  const WindowShape hybrid{WindowKind::hybrid_elastic, 32 * kMiB, 64 * kMiB};
  std::vector<std::pair<std::string, WindowShape>> shapes{
      {"gpu", {WindowKind::gpu, 64 * kMiB, Bytes{0}}}};
  const bool alone = machine.ranks->num_ranks() == 1;
  const bool reuse = options.settings.reuse_sysmem_handles;
  if (!reuse || alone) {
    shapes.emplace_back("elastic", elastic);
    shapes.emplace_back("elastic_host_only", WindowShape{WindowKind::elastic, Bytes{0}, 64 * kMiB});
  }
  if (reuse || alone) shapes.emplace_back("hybrid_elastic", hybrid);
  for (const auto& [name, shape] : shapes) {
    auto result = with_communicator([&, &wanted = shape](Communicator& c) {
      return selftest::check_window(machine, c, wanted);
    });
    if (!result) return within(result.error(), name);
    out["windows"][name] = std::move(*result);
  }
  if (!alone) {
    auto refusal = with_communicator([&](Communicator& c) {
      return selftest::check_refusal(machine, c, reuse ? elastic : hybrid);
    });
    if (!refusal) return within(refusal.error(), "refusal");
    out["refusal"] = std::move(*refusal);
  }
  auto life = with_communicator([&](Communicator& c) { return selftest::check_life(machine, c); });
  if (!life) return within(life.error(), "life");
  out["life"] = std::move(*life);
  auto barrier =
      with_communicator([&](Communicator& c) { return selftest::check_barrier(machine, c); });
  if (!barrier) return within(barrier.error(), "barrier");
  out["barrier"] = std::move(*barrier);
  auto failure = selftest::check_failure(machine, options);
  if (!failure) return within(failure.error(), "failure");
  out["failure"] = std::move(*failure);
  return {};
}

bool all_right(const json& checks) {
  for (const auto& [name, window] : checks.at("windows").items()) {
    if (window.at("wrong_words") != 0) return false;
  }
  return checks.at("barrier").at("stale_values") == 0;
}

int worker(const Arguments& arguments) {
  const auto identity = rendezvous::identity_from([](std::string_view name) {
    const char* const text = std::getenv(std::string(name).c_str());
    return text != nullptr ? std::optional<std::string>(text) : std::nullopt;
  });
  if (!identity) return std::cerr << identity.error().message << "\n", 2;
  auto ranks = rendezvous::Rendezvous::join(*identity, {});
  if (!ranks) return std::cerr << ranks.error().message << "\n", 1;

  DoctorInput input{read_environment(), library_of(arguments), "/sys", "/proc"};
  Report report = examine(input);
  json out = {{"rank", identity->rank.value}, {"ranks", identity->num_ranks}};
  auto driver = load_driver();
  auto library = load_nccl(input.library);
  const auto settings = settings_from(input.environment);
  Result<void> able;
  if (!driver)
    able = tl::unexpected<Error>(driver.error());
  else if (!library)
    able = tl::unexpected<Error>(library.error());
  else if (!settings)
    able = tl::unexpected<Error>(settings.error());
  else if (identity->local_rank >= report.devices.size()) {
    able = fail(ErrorCode::unsupported, identity->num_local_ranks, " ranks on ",
                report.devices.size(), " GPUs");
  }
  const auto all_able = ranks->agree(able);
  if (!all_able) {
    std::cerr << all_able.error().message << "\n";
    return 3;
  }
  CommunicatorOptions options;
  options.device = static_cast<int>(identity->local_rank);
  options.settings = *settings;
  json& checks = out["checks"];
  const auto done = run_checks({*driver, *library, &*ranks}, options, report, checks);
  diagnose(report);
  out["reuse_sysmem_handles"] = options.settings.reuse_sysmem_handles;
  if (identity->rank == Rank{0}) out["doctor"] = to_json(report);
  out["error"] = done ? "" : done.error().message;
  out["right"] = done && all_right(checks);
  std::cout << out.dump() << std::endl;
  return out["right"] ? 0 : 1;
}

/// NCCL reads it once a process: hybrid windows need it, elastic ones must be without.
constexpr std::string_view kReuse = "NCCL_SYM_REUSE_SYSMEM_HANDLES=";

int launch(const Arguments& arguments, char** argv, bool reuse) {
  rendezvous::LaunchOptions options;
  options.num_ranks = arguments.ranks;
  options.argv.push_back("/proc/self/exe");
  for (char** word = argv + 1; *word != nullptr; ++word) options.argv.push_back(*word);
  options.argv.push_back("--worker");
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(kReuse)) options.environment.push_back(*entry);
  }
  if (reuse) options.environment.push_back(std::string(kReuse) + "1");
  options.limit = std::chrono::milliseconds(static_cast<std::int64_t>(arguments.limit_s * 1000));
  rendezvous::RankOutput output(options.num_ranks);
  options.sink = std::ref(output);
  const auto outcome = rendezvous::launch_local(options);
  output.finish();
  if (!outcome) return std::cerr << outcome.error().message << "\n", 1;
  if (outcome->exit_status != 0) std::cerr << outcome->explanation << "\n";
  return outcome->exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Checks windows, communicator and NVLink barrier on this machine's GPUs");
  app.add_option("--ranks", arguments.ranks, "Ranks, one a GPU")->check(CLI::Range(1, 64));
  app.add_option("--nccl", arguments.nccl, "libnccl.so.2 to load");
  app.add_option("--limit", arguments.limit_s, "Seconds the whole test may take");
  app.add_flag("--doctor", arguments.doctor, "Only say what this machine can do");
  app.add_flag("--text", arguments.text, "With --doctor: text instead of JSON");
  app.add_flag("--worker", arguments.worker, "One rank of a job")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.worker) return worker(arguments);
  if (!arguments.doctor) {
    const int without = launch(arguments, argv, false);
    return without != 0 ? without : launch(arguments, argv, true);
  }
  Report report = examine({read_environment(), library_of(arguments), "/sys", "/proc"});
  diagnose(report);
  std::cout << (arguments.text ? to_text(report) : to_json(report).dump(2) + "\n");
  return report.usable() ? 0 : 3;
}
