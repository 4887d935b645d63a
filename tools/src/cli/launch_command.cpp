// engram launch
#include <memory>
#include <ostream>

#include "command.hpp"
#include "engram/tools/machine.hpp"

namespace engram::tools {
namespace {

struct LaunchArguments {
  std::uint32_t num_ranks = 1;
  std::vector<std::string> command;
};

void launch(const LaunchArguments& arguments, CommandContext& context) {
  Console& console = context.console;
  const auto ended =
      launch_job(arguments.num_ranks, arguments.command, console.environment,
                 [&](std::string_view why) { console.err << "engram: " << why << '\n'; });
  if (!ended) {
    context.status = report_error(console, ended.error());
    return;
  }
  context.job_status = *ended;
}

}  // namespace

void add_launch_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand(
      "launch", "start the ranks of a job on this machine, one a GPU, and end as the first failed");
  auto arguments = std::make_shared<LaunchArguments>();
  command->add_option("-n,--ranks", arguments->num_ranks, "processes")
      ->required()
      ->check(CLI::Range(1, 1024));
  command->add_option("command", arguments->command, "program and arguments, after --")->required();
  add_example(*command, "engram launch -n 2 -- engram run pair.toml --backend nccl");
  command->callback([arguments, &context] { launch(*arguments, context); });
}

}  // namespace engram::tools
