// The command line, as a function: `main` hands it what it read from the world.
#pragma once

#include <iosfwd>

#include "engram/tools/environment.hpp"
#include "engram/tools/text_report.hpp"

namespace engram::tools {

enum class ExitStatus : int {
  right = 0,
  check_failed = 1,  ///< wrong bytes, a deadline, a named fault
  bad_input = 2,
  cannot = 3,  ///< no GPU, no NCCL
};

/// What a command talks to.
struct Console {
  std::ostream& out;
  std::ostream& err;
  TextStyle style;        ///< of `out`
  bool progress = false;  ///< `err` is a terminal
  Environment environment;
};

[[nodiscard]] ExitStatus exit_status_of(ErrorCode code);

/// Parses the arguments, runs the command, and returns what the process ends with.
[[nodiscard]] int run_cli(int argc, const char* const* argv, Console& console);

}  // namespace engram::tools
