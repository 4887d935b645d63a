#include "sweep_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "random.hpp"

namespace engram::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Columns after the axes: a name and where it lies in a result.
struct Column {
  const char *name, *pointer;
};
constexpr Column kColumns[] = {
    {"operation", "/operation"},         {"backend", "/backend"},
    {"profile", "/profile"},             {"fidelity", "/fidelity"},
    {"ranks", "/ranks"},                 {"seed", "/seed"},
    {"verified", "/verified"},           {"time_us_median", "/time_us/median"},
    {"time_us_min", "/time_us/min"},     {"time_us_max", "/time_us/max"},
    {"issue_us", "/issue_us"},           {"wait_us", "/wait_us"},
    {"requests", "/requests"},           {"doorbells", "/doorbells"},
    {"payload_bytes", "/payload_bytes"}, {"wire_bytes", "/wire_bytes"},
    {"logical_gbps", "/logical_gbps"},   {"wire_gbps", "/wire_gbps"},
    {"mpps", "/mpps"},                   {"sms", "/sms"},
    {"qps", "/qps"},                     {"bound", "/bound"},
};

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

std::string unquoted(const std::string& toml) {
  const bool quoted = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"';
  return quoted ? toml.substr(1, toml.size() - 2) : toml;
}

}  // namespace

std::vector<SweepSetting> sweep_settings(const Scenario& scenario) {
  std::vector<SweepSetting> settings(1);
  for (const auto& axis : scenario.sweep) {
    std::vector<SweepSetting> longer;
    for (const auto& setting : settings) {
      for (const auto& value : axis.values) {
        auto next = setting;
        next.sets.push_back(axis.key + "=" + value);
        next.values.push_back(unquoted(value));
        longer.push_back(std::move(next));
      }
    }
    settings = std::move(longer);
  }
  return settings;
}

std::string sweep_config(const Scenario& scenario) {
  std::ostringstream text;
  try {
    toml::table root = toml::parse(scenario.text);
    root.erase("sweep");
    text << root;
  } catch (const toml::parse_error&) {
    text << scenario.text;  // a scenario made in code; load_scenario has refused such files
  }
  for (const auto& set : scenario.set_overrides) text << '\n' << set;
  text << '\n' << ENGRAM_VERSION;
  std::uint64_t hash = 0;
  for (const char c : text.str()) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return fmt::format("{:016x}", hash);
}

SweepTable::SweepTable(const Scenario& scenario) : config_(sweep_config(scenario)) {
  for (const auto& axis : scenario.sweep) axes_.push_back(axis.key);
  header_ = axes_;
  header_.emplace_back("status");
  for (const auto& column : kColumns) header_.emplace_back(column.name);
  header_.insert(header_.end(), {"bound_floor_us", "config"});
}

CsvRow SweepTable::row(const SweepSetting& setting, const std::string& status,
                       const Json& result) const {
  CsvRow row = setting.values;
  row.push_back(status);
  for (const auto& column : kColumns) {
    const Json::json_pointer pointer(column.pointer);
    row.push_back(result.contains(pointer) ? text_of(result.at(pointer)) : "");
  }
  const auto floors = result.find("floors_us");
  const auto bound = result.value("bound", std::string());
  row.push_back(floors != result.end() && floors->contains(bound) ? text_of((*floors)[bound]) : "");
  row.push_back(config_);
  return row;
}

SweepPoint SweepTable::point(const CsvRow& row) const {
  const auto number = [&](std::string_view name) {
    return std::strtod(field(row, name).c_str(), nullptr);
  };
  return {{row.begin(), row.begin() + static_cast<std::ptrdiff_t>(axes_.size())},
          field(row, "status"),
          number("time_us_median"),
          number("mpps"),
          field(row, "bound"),
          number("bound_floor_us")};
}

Result<std::vector<CsvRow>> SweepTable::resume(const std::string& path,
                                               std::string_view text) const {
  auto rows = parse_csv(text);
  if (rows.empty()) return rows;
  if (rows.front() != header_) {
    return fail(ErrorCode::invalid_argument, path, ":1: the columns are of another sweep: ",
                fmt::format("{}; accepted: {}", fmt::join(rows.front(), ","),
                            fmt::join(header_, ",")));
  }
  rows.erase(rows.begin());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != header_.size() || field(rows[i], "config") != config_) {
      return fail(ErrorCode::invalid_argument, path, ": row ", i + 1,
                  " was made from another scenario, other --set values or another version; "
                  "accepted: a table of this one, or no --resume");
    }
  }
  std::erase_if(rows, [&](const CsvRow& row) { return field(row, "status") != "ok"; });
  return rows;
}

bool SweepTable::is_of(const CsvRow& row, const SweepSetting& setting) const {
  return std::equal(setting.values.begin(), setting.values.end(), row.begin());
}

std::vector<std::string> SweepTable::idle_axes(const std::vector<CsvRow>& rows) const {
  std::vector<std::string> idle;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    std::map<CsvRow, std::set<std::string>> times;  // what the other axes are -> times seen
    std::set<std::string> values;
    for (const auto& row : rows) {
      if (field(row, "status") != "ok") continue;
      CsvRow others(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(axes_.size()));
      values.insert(others[axis]);
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
      times[others].insert(field(row, "time_us_median"));
    }
    const bool changed = std::any_of(times.begin(), times.end(),
                                     [](const auto& entry) { return entry.second.size() > 1; });
    if (values.size() > 1 && !changed) {
      idle.push_back(fmt::format("{} took {} values and changed no time", axes_[axis],
                                 values.size()));
    }
  }
  return idle;
}

const std::string& SweepTable::field(const CsvRow& row, std::string_view name) const {
  const auto column = std::find(header_.begin(), header_.end(), name);
  return row.at(static_cast<std::size_t>(column - header_.begin()));
}

}  // namespace engram::tools
