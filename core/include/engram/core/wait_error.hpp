// The record that a wait leaves behind when it does not end well.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "engram/core/gin.hpp"

namespace engram::core {

/// Plain numbers: kernels write it into mapped host memory, then return; nothing traps.
struct WaitError {
  static constexpr std::uint32_t kUnset = 0xffffffff;
  WaitStatus status = WaitStatus::ok;  ///< ok = nothing went wrong
  std::uint32_t rank = kUnset;         ///< who waited
  std::uint32_t peer_rank = kUnset;    ///< for whom, in the world
  std::uint32_t qp = kUnset;
  std::uint32_t layer = kUnset;
  std::uint64_t seen = 0;      ///< completions or count seen
  std::uint64_t expected = 0;  ///< and what was waited for
};

/// Where waits report; keeps the first error of a launch. On a GPU many lanes may call it at once.
template <class S>
concept WaitErrorSink = requires(S sink, const WaitError& error) {
  { sink.report(error) } -> std::same_as<void>;
};

/// "rank 3 waited for rank 7 on QP 12, layer 1: 0 of 48 ..."
[[nodiscard]] std::string describe(const WaitError& error);

}  // namespace engram::core
