// engram validate
#include <algorithm>
#include <memory>
#include <ostream>

#include "command.hpp"
#include "engram/model/published.hpp"
#ifdef ENGRAM_HAVE_SIMGRID
#include "validate/experiments.hpp"
#endif

namespace engram::tools {
namespace {

struct Arguments {
  std::string profile, row, data = model::default_published_file();
  bool json = false, markdown = false;
};

Result<std::vector<model::PublishedFigure>> chosen_rows(const Arguments& arguments) {
  auto figures = model::load_published(arguments.data);
  if (!figures) return figures;
  const auto unwanted = [&](const model::PublishedFigure& f) {
    return (!arguments.profile.empty() && f.profile != arguments.profile) ||
           (!arguments.row.empty() && f.id != arguments.row);
  };
  std::erase_if(*figures, unwanted);
  if (figures->empty()) {
    return fail(ErrorCode::invalid_argument, arguments.data, ": no row of profile '",
                arguments.profile, "' and id '", arguments.row, "'");
  }
  return figures;
}

ExitStatus validate(const Arguments& arguments, Console& console) {
  const auto figures = chosen_rows(arguments);
  if (!figures) return report_error(console, figures.error());
#ifdef ENGRAM_HAVE_SIMGRID
  const auto rows = validate::compare(*figures);
  if (!rows) return report_error(console, rows.error());
  console.out << (arguments.json       ? model::validation_json(*rows) + "\n"
                  : arguments.markdown ? model::validation_markdown(*rows)
                                       : model::validation_text(*rows));
  const bool right = std::ranges::all_of(*rows, [](const model::ComparedFigure& row) {
    return !row.figure.data_only.empty() || row.figure.use == model::FigureUse::fitted ||
           model::agrees(row).value_or(true);
  });
  return right ? ExitStatus::right : ExitStatus::check_failed;
#else
  return report_error(console, {ErrorCode::unsupported, "this build has no simulated fabric"});
#endif
}

}  // namespace

void add_validate_command(CLI::App& app, CommandContext& context) {
  auto* command = app.add_subcommand(
      "validate", "compare the model with published figures; status 1 when a held-out row is off");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--profile", arguments->profile, "rows of this profile alone")
      ->type_name("NAME");
  command->add_option("--row", arguments->row, "this row alone")->type_name("ID");
  command->add_option("--data", arguments->data, "the published figures")->type_name("FILE");
  auto* json = command->add_flag("--json", arguments->json, "as JSON");
  command->add_flag("--markdown", arguments->markdown, "as in docs/validation.md")->excludes(json);
  add_example(*command, "engram validate --profile h100-cx7-400");
  command->callback(
      [arguments, &context] { context.status = validate(*arguments, context.console); });
}

}  // namespace engram::tools
