// A sweep as a table: its points, its columns, and the rows of an earlier run to go on from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "csv.hpp"
#include "engram/core/result.hpp"
#include "engram/tools/html_report.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

/// What a sweep's point sets, in the order of the axes.
struct SweepSetting {
  std::vector<std::string> sets;    ///< "cluster.nodes=2", for load_scenario
  std::vector<std::string> values;  ///< "2"; a string without its quotes
};

/// Every combination; the last axis changes fastest.
[[nodiscard]] std::vector<SweepSetting> sweep_settings(const Scenario& scenario);

/// Names what a row was made from: the scenario without [sweep], what was set over it, the version.
[[nodiscard]] std::string sweep_config(const Scenario& scenario);

class SweepTable {
 public:
  explicit SweepTable(const Scenario& scenario);

  [[nodiscard]] const CsvRow& header() const { return header_; }
  /// A row of a result (an object as to_json makes it), or of what went wrong in `status`.
  [[nodiscard]] CsvRow row(const SweepSetting& setting, const std::string& status,
                           const nlohmann::ordered_json& result) const;
  [[nodiscard]] SweepPoint point(const CsvRow& row) const;
  /// The rows of `text` that are right and need not be run again.
  /// Errors: invalid_argument, naming `path`, where it is a table of another sweep or scenario.
  [[nodiscard]] Result<std::vector<CsvRow>> resume(const std::string& path,
                                                   std::string_view text) const;
  /// Whether `row` is of this setting.
  [[nodiscard]] bool is_of(const CsvRow& row, const SweepSetting& setting) const;
  /// A line for each axis that never changed a time: a sweep that cannot see its parameter.
  [[nodiscard]] std::vector<std::string> idle_axes(const std::vector<CsvRow>& rows) const;

 private:
  [[nodiscard]] const std::string& field(const CsvRow& row, std::string_view name) const;

  std::vector<std::string> axes_;
  std::string config_;
  CsvRow header_;
};

}  // namespace engram::tools
