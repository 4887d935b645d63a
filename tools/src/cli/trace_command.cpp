// engram trace
#include <memory>
#include <ostream>

#include "command.hpp"
#include "engram/tools/trace_diff.hpp"

namespace engram::tools {
namespace {

struct Arguments {
  std::string left, right;
};

ExitStatus diff(const Arguments& arguments, Console& console) {
  const auto difference = diff_traces(arguments.left, arguments.right);
  if (!difference) return report_error(console, difference.error());
  if (!*difference) {
    console.out << "the traces are equal\n";
    return ExitStatus::right;
  }
  console.out << (*difference)->text << '\n';
  return ExitStatus::check_failed;
}

}  // namespace

void add_trace_command(CLI::App& app, CommandContext& context) {
  auto* trace = app.add_subcommand("trace", "look into traces that `engram run --trace` wrote");
  trace->require_subcommand(1);
  auto* command = trace->add_subcommand("diff", "the first difference between two runs");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("A", arguments->left, "a trace")->required();
  command->add_option("B", arguments->right, "another trace")->required();
  add_example(*command, "engram trace diff before.json after.json");
  add_example(*trace, "engram trace diff before.json after.json");
  command->callback([arguments, &context] { context.status = diff(*arguments, context.console); });
}

}  // namespace engram::tools
