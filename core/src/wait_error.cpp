#include "engram/core/wait_error.hpp"

#include <fmt/format.h>

namespace engram::core {

std::string describe(const WaitError& error) {
  std::string text = fmt::format("rank {} waited", error.rank);
  if (error.peer_rank != WaitError::kUnset) text += fmt::format(" for rank {}", error.peer_rank);
  if (error.qp != WaitError::kUnset) text += fmt::format(" on QP {}", error.qp);
  if (error.layer != WaitError::kUnset) text += fmt::format(", layer {}", error.layer);
  text += fmt::format(": {} of {} seen", error.seen, error.expected);
  if (error.status == WaitStatus::error) text += "; a request completed with an error";
  if (error.status == WaitStatus::timed_out) text += "; the deadline passed";
  return text;
}

}  // namespace engram::core
