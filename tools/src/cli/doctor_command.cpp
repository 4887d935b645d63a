// engram doctor
#include <memory>
#include <ostream>

#include "command.hpp"
#include "engram/tools/machine.hpp"

namespace engram::tools {
namespace {

ExitStatus doctor(bool json, Console& console) {
  const auto report = examine_machine(console.environment);
  if (!report) return report_error(console, report.error());
  console.out << (json ? report->json : report->text);
  return report->usable ? ExitStatus::right : ExitStatus::cannot;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand(
      "doctor", "what GPUs, NVLink, NICs and NCCL offer here, what is missing, and what to do");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "the report as JSON");
  add_example(*command, "engram doctor");
  command->callback([json, &context] { context.status = doctor(*json, context.console); });
}

}  // namespace engram::tools
