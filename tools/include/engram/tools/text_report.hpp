// A run's result for a terminal: what was done, where the time went, what bounds it.
#pragma once

#include <string>

#include "engram/tools/run.hpp"
#include "engram/tools/run_result.hpp"

namespace engram::tools {

struct TextStyle {
  std::uint32_t width = 80;  ///< columns; below 50 counts as 50
  bool utf8 = false;         ///< block characters instead of '#'
  bool colour = false;       ///< ANSI colours; a terminal only
};

[[nodiscard]] std::string text_report(const RunResult& result, const TextStyle& style);
[[nodiscard]] std::string text_report(const PlanResult& plan, const TextStyle& style);

}  // namespace engram::tools
