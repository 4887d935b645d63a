// Figures that others published or that were measured, which the simulator should agree with, and
// the report of how well it does. The simulator is driven elsewhere (`engram validate`): here are
// only the rows, the comparison and its printing.
//
// The rows lie in model/data/published.toml, in groups that share fields:
//   [[group]]
//   source = "[K] …"                     # who states it; the file's head spells the letters out
//   profile = "h200-cx7-200"             # the platform to run it on
//   tolerance = 0.10                     # relative
//   experiment = { name = "write", bytes = 8 }       # how to reproduce it
//   rows = [
//     { id = "k-issue", condition = "…", quantity = "issue", value = 0.70, unit = "us", use =
//     "fitted" },
//   ]
// A row may restate any field of its group; its experiment is merged into the group's. `value` may
// be a range, [low, high]. `data_only = "why"` shows a row without counting it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::model {

/// What to run: a name and its numbers and words, as the file states them.
struct Experiment {
  std::string name;
  std::map<std::string, std::int64_t> numbers;
  std::map<std::string, std::string> words;
  [[nodiscard]] std::int64_t number(const std::string& key, std::int64_t otherwise) const;
  [[nodiscard]] std::string word(const std::string& key, const std::string& otherwise) const;
};

enum class FigureUse { fitted, held_out };

struct PublishedFigure {
  std::string id;            ///< unique in the file
  std::string source;        ///< publication and table
  std::string condition;     ///< in words
  std::string quantity;      ///< "issue", "round trip", "rate", …
  std::string unit;          ///< of value and of the model's answer: "us", "M/s", "GB/s", "B", "1"
  double low = 0, high = 0;  ///< equal unless a range was published
  FigureUse use = FigureUse::held_out;
  double tolerance = 0.10;  ///< relative, beyond the range
  std::string profile;
  /// Why the row is shown but not counted, if it is not: it states no condition that a model could
  /// reproduce, or stands on a mechanism that the fabric does not have.
  std::string data_only;
  Experiment experiment;
};

/// The file in the source tree if it is there, else where the package puts it.
[[nodiscard]] std::string default_published_file();

/// Errors: not_found; invalid_argument with FILE:LINE and key, also for an id used twice.
[[nodiscard]] Result<std::vector<PublishedFigure>> load_published(const std::string& path);

struct ComparedFigure {
  PublishedFigure figure;
  std::optional<double> model;  ///< nothing if it was not reproduced
  std::string note;             ///< why not, or what to know about it
};

/// Relative distance from the published range: 0 inside, else (model - nearest end) / nearest end.
[[nodiscard]] double relative_error(const PublishedFigure& figure, double model);
/// Whether the model lies within the row's tolerance; nothing if there is no model.
[[nodiscard]] std::optional<bool> agrees(const ComparedFigure& row);

struct ValidationSummary {
  struct Part {
    std::size_t rows = 0, agreeing = 0, not_run = 0, data_only = 0;
    double largest_error = 0;  ///< absolute value
  };
  Part fitted, held_out;
};
[[nodiscard]] ValidationSummary summarize(std::span<const ComparedFigure> rows);

/// A table for a terminal, grouped by source, with the summary below it.
[[nodiscard]] std::string validation_text(std::span<const ComparedFigure> rows);
/// One JSON object: { "rows": [...], "fitted": {...}, "held_out": {...} }.
[[nodiscard]] std::string validation_json(std::span<const ComparedFigure> rows);
/// The table of validation_text as Markdown (docs/validation.md).
[[nodiscard]] std::string validation_markdown(std::span<const ComparedFigure> rows);

}  // namespace engram::model
