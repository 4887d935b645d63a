// The first difference between two Chrome traces, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engram/core/result.hpp"

namespace engram::tools {

struct TraceDifference {
  std::uint64_t event = 0;  ///< 0-based, metadata not counted; where both traces part
  std::string text;         ///< both events with rank, track and time, and what differs
};

/// Reads both files side by side, an event at a time.
/// Errors: not_found; invalid_argument, naming file and line, for what is no trace of ours.
[[nodiscard]] Result<std::optional<TraceDifference>> diff_traces(const std::string& left,
                                                                 const std::string& right);

}  // namespace engram::tools
