#include "command.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>

#include "output_file.hpp"

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
  // Errors name what was typed, not what it stands for.
  const auto as_typed = [&](std::string& text) {
    for (const auto& [set, option] :
         {std::pair{"--set run.backend=" + backend, "--backend " + backend},
          std::pair{"--set run.seed=" + seed, "--seed " + seed}}) {
      const auto at = option.back() == ' ' ? text.npos : text.find(set);
      if (at != text.npos) text.replace(at, set.size(), option);
    }
  };
  if (!scenario) {
    Error error = scenario.error();
    as_typed(error.message);
    return tl::unexpected(std::move(error));
  }
  for (auto& [key, place] : scenario->places) as_typed(place);
  if (scenario) {
    if (environment.service_level) {
      scenario->cluster.network.service_level = *environment.service_level;
    }
    scenario->host = environment.host;
  }
  return scenario;
}

ExitStatus report_error(Console& console, const Error& error) {
  // One write: a rank that is being ended must not leave half a line.
  console.err << "engram: error: " + error.message + '\n';
  return exit_status_of(error.code);
}

Result<void> check_outputs(std::initializer_list<OutputOption> outputs) {
  std::map<std::string, std::string_view> seen;
  for (const auto& [option, path] : outputs) {
    if (path.empty()) continue;
    if (const auto [at, is_new] = seen.try_emplace(path, option); !is_new) {
      return fail(ErrorCode::invalid_argument, at->second, " and ", option, " both name ",
                  is_standard_output(path) ? "standard output" : path);
    }
    if (is_standard_output(path)) continue;
    std::error_code ignored;
    const auto kind = std::filesystem::status(path, ignored).type();
    const bool was_there = kind != std::filesystem::file_type::not_found;
    const bool folder = kind == std::filesystem::file_type::directory;
    // A pipe or device is opened once, when there is something to write.
    if (was_there && !folder && kind != std::filesystem::file_type::regular) continue;
    errno = 0;
    const bool writable =
        !folder && std::ofstream(path, std::ios::binary | std::ios::app).is_open();
    if (!writable) {
      return fail(ErrorCode::io, option, " ", path,
                  ": cannot be written: ", errno != 0 ? std::strerror(errno) : "it is a folder");
    }
    if (!was_there) std::filesystem::remove(path, ignored);
  }
  return {};
}

Result<void> write_output(const std::string& path, std::string_view text, Console& console) {
  if (is_standard_output(path)) {
    console.out << text;
    return {};
  }
  OutputFile file(path);
  file.out() << text;
  return file.commit();
}

void add_example(CLI::App& command, std::string_view example) {
  command.footer(fmt::format("\nExample:\n  {}", example));
}

}  // namespace engram::tools
