#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engram/model/published.hpp"

namespace engram::model {
namespace {

std::string_view name_of(FigureUse use) { return use == FigureUse::fitted ? "fitted" : "held out"; }

std::string published_text(const PublishedFigure& f) {
  return f.low == f.high ? fmt::format("{:g} {}", f.low, f.unit)
                         : fmt::format("{:g}-{:g} {}", f.low, f.high, f.unit);
}

std::string verdict(const ComparedFigure& row) {
  const auto ok = agrees(row);
  if (!row.figure.data_only.empty()) return "data only: " + row.figure.data_only;
  return !ok ? "not run" : *ok ? "ok" : "OFF";
}

/// Columns as wide as their longest cell; numbers to the right.
std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const bool number = c >= 2 && c <= 5;
      line += number ? fmt::format("{:>{}}  ", row[c], width[c])
                     : fmt::format("{:<{}}  ", row[c], width[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<std::string> cells(const ComparedFigure& row) {
  const PublishedFigure& f = row.figure;
  return {f.condition,
          f.quantity,
          published_text(f),
          row.model ? fmt::format("{:.4g} {}", *row.model, f.unit) : "-",
          row.model ? fmt::format("{:+.1f} %", 100 * relative_error(f, *row.model)) : "-",
          fmt::format("{:g} %", 100 * f.tolerance),
          std::string(name_of(f.use)),
          row.note.empty() ? verdict(row) : verdict(row) + ": " + row.note};
}

std::string summary_line(std::string_view name, const ValidationSummary::Part& part) {
  return fmt::format(
      "{}: {} of {} rows run agree, largest error {:.1f} %, {} not run, {} data only\n", name,
      part.agreeing, part.rows - part.not_run - part.data_only, 100 * part.largest_error,
      part.not_run, part.data_only);
}

nlohmann::ordered_json part_json(const ValidationSummary::Part& part) {
  return {{"rows", part.rows},
          {"agreeing", part.agreeing},
          {"not_run", part.not_run},
          {"data_only", part.data_only},
          {"largest_error", part.largest_error}};
}

}  // namespace

double relative_error(const PublishedFigure& figure, double model) {
  if (model >= figure.low && model <= figure.high) return 0;
  const double end = model < figure.low ? figure.low : figure.high;
  return (model - end) / end;
}

std::optional<bool> agrees(const ComparedFigure& row) {
  if (!row.model) return std::nullopt;
  return std::abs(relative_error(row.figure, *row.model)) <= row.figure.tolerance;
}

ValidationSummary summarize(std::span<const ComparedFigure> rows) {
  ValidationSummary summary;
  for (const ComparedFigure& row : rows) {
    auto& part = row.figure.use == FigureUse::fitted ? summary.fitted : summary.held_out;
    ++part.rows;
    if (!row.figure.data_only.empty()) {
      ++part.data_only;
      continue;
    }
    if (!row.model) {
      ++part.not_run;
      continue;
    }
    part.agreeing += *agrees(row);
    part.largest_error =
        std::max(part.largest_error, std::abs(relative_error(row.figure, *row.model)));
  }
  return summary;
}

std::string validation_text(std::span<const ComparedFigure> rows) {
  std::string text;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    const auto& head = rows[first].figure;
    std::vector<std::vector<std::string>> table{
        {"condition", "quantity", "published", "model", "error", "allowed", "use", "verdict"}};
    while (last < rows.size() && rows[last].figure.source == head.source &&
           rows[last].figure.profile == head.profile) {
      table.push_back(cells(rows[last++]));
    }
    text += fmt::format("{}; profile {}\n{}\n", head.source, head.profile, table_text(table));
    first = last;
  }
  const auto summary = summarize(rows);
  return text + summary_line("fitted", summary.fitted) + summary_line("held out", summary.held_out);
}

std::string validation_markdown(std::span<const ComparedFigure> rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& f = rows[i].figure;
    if (i == 0 || f.source != rows[i - 1].figure.source ||
        f.profile != rows[i - 1].figure.profile) {
      text += fmt::format(
          "{}### {}\n\nProfile `{}`.\n\n"
          "| condition | quantity | published | model | error | allowed | use | verdict |\n"
          "|---|---|---:|---:|---:|---:|---|---|\n",
          i == 0 ? "" : "\n", f.source, f.profile);
    }
    text += fmt::format("| {} |\n", fmt::join(cells(rows[i]), " | "));
  }
  const auto summary = summarize(rows);
  return text + "\n- " + summary_line("fitted", summary.fitted) + "- " +
         summary_line("held out", summary.held_out);
}

std::string validation_json(std::span<const ComparedFigure> rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ComparedFigure& row : rows) {
    const PublishedFigure& f = row.figure;
    nlohmann::ordered_json entry{{"id", f.id},
                                 {"source", f.source},
                                 {"condition", f.condition},
                                 {"quantity", f.quantity},
                                 {"unit", f.unit},
                                 {"profile", f.profile},
                                 {"published", {f.low, f.high}},
                                 {"model", nullptr},
                                 {"error", nullptr},
                                 {"tolerance", f.tolerance},
                                 {"use", f.use == FigureUse::fitted ? "fitted" : "held_out"},
                                 {"agrees", nullptr},
                                 {"data_only", f.data_only},
                                 {"note", row.note}};
    if (row.model) {
      entry["model"] = *row.model;
      entry["error"] = relative_error(f, *row.model);
      entry["agrees"] = *agrees(row);
    }
    list.push_back(std::move(entry));
  }
  const auto summary = summarize(rows);
  const nlohmann::ordered_json report{{"rows", std::move(list)},
                                      {"fitted", part_json(summary.fitted)},
                                      {"held_out", part_json(summary.held_out)}};
  return report.dump(2);
}

}  // namespace engram::model
