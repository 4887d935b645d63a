// The environment variables that matter, read once by main and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engram/core/result.hpp"
#include "engram/rendezvous/identity.hpp"
#include "engram/tools/scenario.hpp"

namespace engram::tools {

enum class LogLevel { error, warning, info, debug };

struct Environment {
  std::optional<std::uint32_t> service_level;  ///< replaces cluster.network.service_level
  LogLevel log_level = LogLevel::warning;
  HostOptions host;
  std::optional<rendezvous::JobPlace> job;  ///< which process of a job this is
};

/// Null where a variable is not set, as std::getenv.
using GetVariable = std::function<const char*(const char* name)>;

/// Errors: invalid_argument, naming the variable, its value and what is accepted.
[[nodiscard]] Result<Environment> read_environment(const GetVariable& get);

/// docs/environment.md: the table of variables.
[[nodiscard]] std::string environment_reference();

}  // namespace engram::tools
