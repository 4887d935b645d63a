// Comma-separated values (RFC 4180): fields with commas, quotes or newlines are quoted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engram::tools {

using CsvRow = std::vector<std::string>;

/// One line with its newline.
[[nodiscard]] std::string csv_line(const CsvRow& row);
/// The whole rows of `text`; one that is cut off at the end is left out.
[[nodiscard]] std::vector<CsvRow> parse_csv(std::string_view text);

}  // namespace engram::tools
