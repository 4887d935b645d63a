// engram run
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>
#include <optional>
#include <ostream>

#include "command.hpp"
#include "engram/tools/html_report.hpp"
#include "engram/tools/run.hpp"
#include "output_file.hpp"
#include "progress.hpp"

namespace engram::tools {
namespace {

struct RunArguments {
  ScenarioArguments scenario;
  std::string json, trace, report;
  bool cost = false;
};

/// What the run cost this machine; never part of a result, which is the same on all machines.
void print_cost(const RunResult& result, std::uint32_t repeats, Console& console) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double seconds = static_cast<double>(result.wall.count()) * 1e-9;
  const double gets = static_cast<double>(result.requests) * repeats;
  const double cpu = static_cast<double>(result.cpu.count()) * 1e-9;
  console.err << fmt::format(
      "engram: cost: {:.2f} s wall, {:.2f} s CPU, {:.0f} k network reads/s ({:.0f} k by CPU time), "
      "{} MB\n",
      seconds, cpu, gets / seconds * 1e-3, gets / cpu * 1e-3, usage.ru_maxrss / 1024);
}

struct TraceFile {
  TraceFile(const std::string& path, Console& console)
      : file(is_standard_output(path) ? nullptr : std::make_unique<OutputFile>(path)),
        out(file ? file->out() : console.out),
        writer(out) {}
  std::unique_ptr<OutputFile> file;
  std::ostream& out;
  ChromeTraceWriter writer;
};

Result<void> write_outputs(const RunArguments& arguments, const Scenario& scenario,
                           const RunResult& result, Console& console) {
  const bool taken = is_standard_output(arguments.json) || is_standard_output(arguments.trace) ||
                     is_standard_output(arguments.report);
  if (!taken) console.out << text_report(result, console.style);
  if (!arguments.json.empty()) {
    auto written = write_output(arguments.json, to_json_text(result), console);
    if (!written) return written;
  }
  if (arguments.report.empty()) return {};
  return write_output(arguments.report, html_report(result, scenario), console);
}

ExitStatus run(const RunArguments& arguments, Console& console) {
  const auto scenario = arguments.scenario.load(console.environment);
  if (!scenario) return report_error(console, scenario.error());
  if (auto fine = check_outputs({{"--json", arguments.json},
                                 {"--trace", arguments.trace},
                                 {"--report", arguments.report}});
      !fine) {
    return report_error(console, fine.error());
  }
  const Interruption interruption({arguments.json, arguments.trace, arguments.report});
  std::optional<TraceFile> trace;
  RunObserver observer;
  if (!arguments.trace.empty()) {
    trace.emplace(arguments.trace, console);
    if (!trace->out) {
      return report_error(console, {ErrorCode::io, arguments.trace + ": cannot be written"});
    }
    observer.trace = &trace->writer;
  }
  Progress progress(console.err, console.progress);
  observer.on_progress = [&](std::uint32_t done, std::uint32_t total) {
    progress.update(done, total);
  };
  const auto result = run_scenario(*scenario, observer);
  progress.clear();
  if (trace) {
    trace->writer.finish();
    if (!trace->out) {
      return report_error(console, {ErrorCode::io, arguments.trace + ": cannot be written"});
    }
  }
  if (trace && trace->file && result) {
    if (auto kept = trace->file->commit(); !kept) return report_error(console, kept.error());
  }
  if (!result) return report_error(console, result.error());
  // Of a job's ranks the first tells; the others say only why they failed.
  const auto& job = console.environment.job;
  const bool tells = !job || job->rank == Rank{0} || scenario->run.backend != "nccl";
  if (auto written = tells ? write_outputs(arguments, *scenario, *result, console) : Result<void>{};
      !written) {
    return report_error(console, written.error());
  }
  if (arguments.cost) print_cost(*result, scenario->run.repeat, console);
  if (!result->failure.empty()) {
    console.err << "engram: failed: " << result->failure << '\n';
    return ExitStatus::check_failed;
  }
  return result->verified.value_or(true) ? ExitStatus::right : ExitStatus::check_failed;
}

}  // namespace

void add_run_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand("run", "run a scenario, check it and explain its time");
  auto arguments = std::make_shared<RunArguments>();
  arguments->scenario.add_to(*command);
  command->add_option("--json", arguments->json, "the result as JSON; - prints it instead")
      ->type_name("FILE|-");
  command
      ->add_option("--trace", arguments->trace,
                   "Chrome trace of the first repeat; - prints it instead")
      ->type_name("FILE|-");
  command
      ->add_option("--report", arguments->report, "self-contained HTML page; - prints it instead")
      ->type_name("FILE.html|-");
  command->add_flag("--cost", arguments->cost, "say what the run cost this machine, on stderr");
  add_example(*command,
              "engram run scenarios/quickstart.toml --set fetch.tokens=64 --report q.html");
  command->callback([arguments, &context] { context.status = run(*arguments, context.console); });
}

}  // namespace engram::tools
