#include "engram/model/published.hpp"

#include <filesystem>
#include <set>

#include "toml_reader.hpp"

namespace engram::model {
namespace {

/// A row's field, or the group's where the row is silent.
std::string field(TableReader& group, TableReader& row, const char* key) {
  if (row.has(key)) return row.text(key);
  if (group.has(key)) return group.text(key);
  return row.text(key);  // refuses: missing
}

void add_parameters(Experiment& experiment, const toml::table& table, TableReader& in) {
  const auto* node = table.get("experiment");
  in.expect("experiment");
  if (!node) return;
  const auto* parameters = node->as_table();
  if (!parameters) return in.refuse("experiment", "expected a table");
  for (const auto& [key, value] : *parameters) {
    const std::string name(key.str());
    if (name == "name" && value.is_string())
      experiment.name = value.as_string()->get();
    else if (value.is_integer())
      experiment.numbers[name] = value.as_integer()->get();
    else if (value.is_string())
      experiment.words[name] = value.as_string()->get();
    else
      in.refuse("experiment", "\"" + name + "\" is neither a whole number nor a text");
  }
}

void read_value(PublishedFigure& figure, const toml::table& table, TableReader& in) {
  in.expect("value");
  if (const auto number = table["value"].value<double>()) {
    figure.low = figure.high = *number;
  } else if (const auto* range = table["value"].as_array(); range && range->size() == 2) {
    figure.low = (*range)[0].value_or(0.0);
    figure.high = (*range)[1].value_or(0.0);
  }
  if (!(figure.low > 0) || figure.low > figure.high) {
    in.refuse("value", "expected a number above 0, or a range [low, high] of such");
  }
}

FigureUse read_use(const std::string& text, TableReader& in) {
  if (text != "fitted" && text != "held_out") in.refuse("use", "expected fitted or held_out");
  return text == "fitted" ? FigureUse::fitted : FigureUse::held_out;
}

Result<PublishedFigure> read_row(const toml::table& group_table, TableReader& group,
                                 const toml::table& table) {
  TableReader row(table, "row");
  PublishedFigure f;
  f.id = row.text("id");
  f.source = field(group, row, "source");
  f.condition = field(group, row, "condition");
  f.quantity = field(group, row, "quantity");
  f.unit = field(group, row, "unit");
  f.profile = field(group, row, "profile");
  f.use = read_use(field(group, row, "use"), row);
  for (TableReader* table_of : {&group, &row}) {
    table_of->expect("data_only");
    if (table_of->has("data_only")) f.data_only = table_of->text("data_only");
  }
  f.tolerance = row.has("tolerance") ? row.number("tolerance") : group.number("tolerance");
  read_value(f, table, row);
  add_parameters(f.experiment, group_table, group);
  add_parameters(f.experiment, table, row);
  if (f.experiment.name.empty()) row.refuse("experiment", "names no experiment");
  if (auto ok = row.done(); !ok) return tl::unexpected(ok.error());
  return f;
}

/// Rows of one [[group]], appended to `figures`.
Result<void> read_group(const toml::table& table, std::vector<PublishedFigure>& figures) {
  TableReader group(table, "group");
  for (const char* key :
       {"source", "condition", "quantity", "unit", "profile", "use", "tolerance"}) {
    group.expect(key);
  }
  group.expect("rows");
  const auto* rows = table["rows"].as_array();
  if (!rows || rows->empty()) group.refuse("rows", "expected rows");
  for (std::size_t i = 0; rows && i < rows->size(); ++i) {
    const auto* row = (*rows)[i].as_table();
    if (!row)
      return fail(ErrorCode::invalid_argument, place((*rows)[i].source()), ": a row is a table");
    auto figure = read_row(table, group, *row);
    if (!figure) return tl::unexpected(figure.error());
    figures.push_back(*std::move(figure));
  }
  return group.done();
}

}  // namespace

std::int64_t Experiment::number(const std::string& key, std::int64_t otherwise) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? otherwise : found->second;
}

std::string Experiment::word(const std::string& key, const std::string& otherwise) const {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : found->second;
}

std::string default_published_file() {
  const std::string source = ENGRAM_SOURCE_DATA "/published.toml";
  return std::filesystem::exists(source) ? source : ENGRAM_INSTALLED_DATA "/published.toml";
}

Result<std::vector<PublishedFigure>> load_published(const std::string& path) {
  const auto file = read_toml(path);
  if (!file) return tl::unexpected(file.error());
  for (const auto& [key, node] : *file) {
    if (key.str() != "group" || !node.is_array_of_tables()) {
      return fail(ErrorCode::invalid_argument, place(key.source()), ": ", key.str(),
                  ": expected [[group]] only");
    }
  }
  std::vector<PublishedFigure> figures;
  const auto* groups = (*file)["group"].as_array();
  for (std::size_t i = 0; groups && i < groups->size(); ++i) {
    if (auto ok = read_group(*(*groups)[i].as_table(), figures); !ok)
      return tl::unexpected(ok.error());
  }
  std::set<std::string> ids;
  for (const PublishedFigure& figure : figures) {
    if (!ids.insert(figure.id).second) {
      return fail(ErrorCode::invalid_argument, path, ":1: id \"", figure.id, "\" is used twice");
    }
  }
  return figures;
}

}  // namespace engram::model
