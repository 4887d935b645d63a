// engram scenario
#include <memory>
#include <ostream>

#include "command.hpp"

namespace engram::tools {
namespace {

struct Arguments {
  ScenarioArguments scenario;
  bool keys = false, environment = false;
};

ExitStatus show(const Arguments& arguments, Console& console) {
  if (arguments.keys) {
    console.out << scenario_reference();
  } else if (arguments.environment) {
    console.out << environment_reference();
  } else if (arguments.scenario.path.empty()) {
    return report_error(console, {ErrorCode::invalid_argument,
                                  "scenario: accepted: a file to check, --keys or --environment"});
  } else {
    const auto scenario = arguments.scenario.load(console.environment);
    if (!scenario) return report_error(console, scenario.error());
    console.out << scenario->path << ": " << name_of(scenario->run.operation) << " on "
                << scenario->num_ranks() << " ranks, " << scenario->run.backend << ": right\n";
  }
  return ExitStatus::right;
}

}  // namespace

void add_scenario_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand("scenario", "check a scenario file, or list what it may hold");
  auto arguments = std::make_shared<Arguments>();
  arguments->scenario.add_to(*command);
  command->get_option("scenario")->required(false);
  command->add_flag("--keys", arguments->keys, "every key, as docs/scenario.md");
  command->add_flag("--environment", arguments->environment,
                    "every environment variable, as docs/environment.md");
  add_example(*command, "engram scenario scenarios/quickstart.toml --set fetch.qps=8");
  command->callback([arguments, &context] { context.status = show(*arguments, context.console); });
}

}  // namespace engram::tools
