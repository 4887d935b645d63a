#include "engram/core/result.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace engram {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::out_of_range:
      return "out of range";
    case ErrorCode::timed_out:
      return "timed out";
    case ErrorCode::deadlock:
      return "deadlock";
    case ErrorCode::peer_lost:
      return "peer lost";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io:
      return "input/output";
    case ErrorCode::wrong_bytes:
      return "wrong bytes";
    case ErrorCode::not_found:
      return "not found";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

std::string detail::concatenate(std::size_t count, fmt::format_args parts) {
  std::string pattern;
  for (std::size_t i = 0; i < count; ++i) pattern += "{}";
  return fmt::vformat(pattern, parts);
}

void require(bool condition, std::string_view why, std::source_location where) {
  if (condition) return;
  std::fprintf(stderr, "%s:%u: %s: bug: %.*s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(),
               static_cast<int>(why.size()), why.data());
  std::abort();
}

}  // namespace engram
