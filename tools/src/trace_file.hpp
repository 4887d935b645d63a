// A recorded workload: one token a line, its rows as integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::tools {

struct TraceShape {
  std::uint32_t entries = 0;          ///< rows of a token in a layer
  std::vector<std::uint64_t> rows;    ///< [layers], of the tables
  std::uint64_t tokens = 0;           ///< lines needed
};

/// [lines, layers, entries]. A line holds `entries` rows, for every layer alike, or layers x
/// entries; between them spaces, tabs or commas. -1 = no row; lines that are empty or begin with #
/// are skipped.
/// Errors: invalid_argument "file:line: ..." for a cut-off file, a wrong count, a row past its
/// table, something that is no integer; not_found.
[[nodiscard]] Result<std::vector<std::int64_t>> read_trace_file(const std::string& path,
                                                                const TraceShape& shape);

}  // namespace engram::tools
