// engram plan
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "command.hpp"
#include "engram/tools/run.hpp"
#include "output_file.hpp"

namespace engram::tools {
namespace {

struct PlanArguments {
  ScenarioArguments scenario;
  std::string json;
};

std::string json_text(const PlanResult& plan) {
  nlohmann::ordered_json json;
  json["title"] = plan.title;
  json["lines"] = nlohmann::ordered_json::array();
  for (const auto& line : plan.lines) {
    json["lines"].push_back({{"group", line.group},
                             {"name", line.name},
                             {"value", line.value},
                             {"unit", line.unit},
                             {"formula", line.formula},
                             {"roof", line.roof}});
  }
  json["warnings"] = plan.warnings;
  return json.dump(2) + "\n";
}

ExitStatus plan(const PlanArguments& arguments, Console& console) {
  const auto scenario = arguments.scenario.load(console.environment);
  if (!scenario) return report_error(console, scenario.error());
  const auto result = plan_scenario(*scenario);
  if (!result) return report_error(console, result.error());
  if (!is_standard_output(arguments.json)) console.out << text_report(*result, console.style);
  if (!arguments.json.empty()) {
    const Interruption interruption({arguments.json});
    if (auto written = write_output(arguments.json, json_text(*result), console); !written) {
      return report_error(console, written.error());
    }
  }
  return ExitStatus::right;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandContext& context) {
  auto* command =
      app.add_subcommand("plan", "show SMs, QPs, bytes and floors, each with its formula");
  auto arguments = std::make_shared<PlanArguments>();
  arguments->scenario.add_to(*command);
  command->add_option("--json", arguments->json, "the plan as JSON; - prints it instead")
      ->type_name("FILE|-");
  add_example(*command, "engram plan scenarios/default_v2.toml --set cluster.nodes=8");
  command->callback([arguments, &context] { context.status = plan(*arguments, context.console); });
}

}  // namespace engram::tools
