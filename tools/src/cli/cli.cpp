#include "engram/tools/cli.hpp"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "command.hpp"

namespace engram::tools {
namespace {

using AddCommand = void (*)(CLI::App&, CommandContext&);

/// In the order of the help.
constexpr std::array<AddCommand, 10> kCommands{
    add_run_command,    add_plan_command, add_sweep_command,    add_scenario_command,
    add_trace_command,  add_topo_command, add_validate_command, add_launch_command,
    add_doctor_command, add_bench_command};

/// Where a command is required: the word in its place, and what there is. Nothing of other errors.
std::string wrong_command(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  std::string offered;
  for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
    offered += (offered.empty() ? "" : ", ") + command->get_name();
  }
  if (offered.empty()) return {};
  const auto words = at->remaining();
  return fmt::format("{}: {}; there are: {}\n", path,
                     words.empty() ? "a command is missing"
                                   : fmt::format("'{}' is none of its commands", words.front()),
                     offered);
}

}  // namespace

ExitStatus exit_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
    case ErrorCode::not_found:
    case ErrorCode::io:
      return ExitStatus::bad_input;
    case ErrorCode::unsupported:
      return ExitStatus::cannot;
    case ErrorCode::timed_out:
    case ErrorCode::deadlock:
    case ErrorCode::peer_lost:
    case ErrorCode::wrong_bytes:
    case ErrorCode::internal:
      return ExitStatus::check_failed;
  }
  return ExitStatus::check_failed;
}

int run_cli(int argc, const char* const* argv, Console& console) {
  CommandContext context{console};
  CLI::App app{"GPU-initiated one-sided communication: run, plan and compare", "engram"};
  app.set_version_flag("--version", ENGRAM_VERSION);
  app.require_subcommand(1);
  app.footer(
      "\nExit status: 0 right, 1 a check failed, 2 bad input, 3 this machine cannot.\n"
      "`engram COMMAND --help` shows an example.");
  for (const auto add : kCommands) add(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string wrong = wrong_command(app);
        error.get_exit_code() != 0 && !wrong.empty()) {
      console.err << "engram: error: " + wrong;
      return static_cast<int>(ExitStatus::bad_input);
    }
    const int code = app.exit(error, console.out, console.err);
    return code == 0 ? 0 : static_cast<int>(ExitStatus::bad_input);
  }
  console.out.flush();
  if (!console.out && context.status == ExitStatus::right) {
    context.status = report_error(console, {ErrorCode::io, "standard output: cannot be written"});
  }
  return context.job_status.value_or(static_cast<int>(context.status));
}

}  // namespace engram::tools
