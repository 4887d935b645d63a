// engram bench fetch
#include <memory>
#include <ostream>

#include "command.hpp"
#include "engram/tools/machine.hpp"
#include "output_file.hpp"

namespace engram::tools {
namespace {

struct BenchArguments {
  BenchRequest request;
  std::string json;
};

ExitStatus bench(const BenchArguments& arguments, Console& console) {
  if (auto fine = check_outputs({{"--json", arguments.json}}); !fine) {
    return report_error(console, fine.error());
  }
  std::ostream& lines = is_standard_output(arguments.json) ? console.err : console.out;
  const auto outcome = bench_fetch(arguments.request, console.environment,
                                   [&](std::string_view line) { lines << line << std::flush; });
  if (!outcome) return report_error(console, outcome.error());
  for (const std::string& skipped : outcome->skipped) lines << "skipped " << skipped << '\n';
  if (!arguments.json.empty()) {
    const Interruption interruption({arguments.json});
    if (auto written = write_output(arguments.json, outcome->json, console); !written) {
      return report_error(console, written.error());
    }
  }
  if (outcome->wrong_bytes == 0) return ExitStatus::right;
  console.err << "engram: failed: " << outcome->wrong_bytes << " wrong bytes\n";
  return ExitStatus::check_failed;
}

}  // namespace

void add_bench_command(CLI::App& app, CommandContext& context) {
  auto* group = app.add_subcommand("bench", "measure this machine's GPUs");
  group->require_subcommand(1);
  auto* command = group->add_subcommand(
      "fetch",
      "rows by loads and, in the groups \"stream\", by fetches as an engine makes them: sizes, "
      "min/median/max, GB/s, M rows/s and wrong bytes, each beside the limit measured in the "
      "same run");
  auto arguments = std::make_shared<BenchArguments>();
  BenchRequest& request = arguments->request;
  command->add_option("--device", request.device, "GPU that fetches");
  command->add_option("--peer", request.peer, "GPU whose rows are read over NVLink; -1: none");
  command->add_option("--host-gib", request.host_gib, "host table; 0: no host rows")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--repeats", request.repeats, "timed launches a case")
      ->check(CLI::Range(1, 1'000'000));
  command
      ->add_option("--assist-threads", request.assist_threads,
                   "host threads that gather host rows; 0: none")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--only", request.only, "groups whose name contains this");
  command->add_option("--json", arguments->json, "the figures as JSON; - prints them instead")
      ->type_name("FILE|-");
  add_example(*command, "engram bench fetch --only default --host-gib 0");
  command->callback([arguments, &context] { context.status = bench(*arguments, context.console); });
}

}  // namespace engram::tools
