// What each command of `engram` is made of. A command adds itself to the app and, when called,
// sets the exit status; cli.cpp lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/tools/cli.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

struct CommandContext {
  Console& console;
  ExitStatus status = ExitStatus::right;
  /// Of a job that was launched, or 128 + the signal that ended the command; stands over `status`.
  std::optional<int> job_status{};
};

void add_run_command(CLI::App& app, CommandContext& context);
void add_plan_command(CLI::App& app, CommandContext& context);
void add_sweep_command(CLI::App& app, CommandContext& context);
void add_scenario_command(CLI::App& app, CommandContext& context);
void add_trace_command(CLI::App& app, CommandContext& context);
void add_topo_command(CLI::App& app, CommandContext& context);
void add_validate_command(CLI::App& app, CommandContext& context);
void add_launch_command(CLI::App& app, CommandContext& context);
void add_doctor_command(CLI::App& app, CommandContext& context);
void add_bench_command(CLI::App& app, CommandContext& context);

/// SCENARIO.toml, --set, --seed and --backend, alike for every command that takes a scenario.
struct ScenarioArguments {
  std::string path;
  std::vector<std::string> sets;
  std::string backend;
  std::string seed;

  void add_to(CLI::App& command);
  /// With `more` set last, and the environment's overrides put over all.
  [[nodiscard]] Result<Scenario> load(const Environment& environment,
                                      const std::vector<std::string>& more = {}) const;
};

/// Prints the error, one line each, and returns the status it stands for.
ExitStatus report_error(Console& console, const Error& error);

/// Where a command writes beside what it prints: "--report" and its path, "" = nowhere, "-" =
/// standard output in the place of what the command prints otherwise.
struct OutputOption {
  std::string_view option;
  const std::string& path;
};
/// Before anything runs: whether every path can be written, without changing what is there.
/// Errors: io, naming option, path and reason; invalid_argument where two name the same place.
[[nodiscard]] Result<void> check_outputs(std::initializer_list<OutputOption> outputs);
[[nodiscard]] inline bool is_standard_output(const std::string& path) { return path == "-"; }
/// To the file, complete or not at all, or to standard output for "-". Errors: io, naming the file.
[[nodiscard]] Result<void> write_output(const std::string& path, std::string_view text,
                                        Console& console);

/// "Example:" under a command's help.
void add_example(CLI::App& command, std::string_view example);

}  // namespace engram::tools
