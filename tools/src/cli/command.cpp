#include "command.hpp"

#include <fmt/format.h>

#include <fstream>
#include <ostream>

namespace engram::tools {

void ScenarioArguments::add_to(CLI::App& command) {
  command.add_option("scenario", path, "scenario file (TOML)")->required()->type_name("SCENARIO");
  // One value an option: without this, "--set a=1 file" would take the file too.
  command.add_option("--set", sets, "put a value over the file's; may be repeated")
      ->type_name("key=value")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--backend", backend, "sim, loopback or nccl")->type_name("NAME");
  command.add_option("--seed", seed, "of every random choice")->type_name("N");
}

Result<Scenario> ScenarioArguments::load(const Environment& environment,
                                         const std::vector<std::string>& more) const {
  auto all = sets;
  if (!backend.empty()) all.push_back("run.backend=" + backend);
  if (!seed.empty()) all.push_back("run.seed=" + seed);
  all.insert(all.end(), more.begin(), more.end());
  auto scenario = load_scenario(path, all);
  if (scenario) {
    if (environment.service_level) {
      scenario->cluster.network.service_level = *environment.service_level;
    }
    scenario->host = environment.host;
  }
  return scenario;
}

ExitStatus report_error(Console& console, const Error& error) {
  console.err << "engram: error: " << error.message << '\n';
  return exit_status_of(error.code);
}

Result<void> write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) return fail(ErrorCode::io, path, ": cannot be written");
  return {};
}

void add_example(CLI::App& command, std::string_view example) {
  command.footer(fmt::format("\nExample:\n  {}", example));
}

}  // namespace engram::tools
