// Who waits for what when nothing can move: one wording for all host backends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engram/host/executor.hpp"

namespace engram::host {

/// What a backend knows about the operation that a warp is stuck on.
struct WaitFacts {
  struct Queue {
    std::uint32_t qp = 0;
    Rank peer;
    std::uint64_t unrung = 0, outstanding = 0, depth = 0;
  };
  std::optional<Queue> queue;  ///< of a free slot, or of completions
  std::uint64_t signal = 0;    ///< its present value
  std::int32_t word = 0;       ///< its present value
};

class WaitReport {
 public:
  /// Adds a warp that is stuck on its head. Answers whether more are wanted.
  bool add(const Kernel& kernel, Warp& warp, const WaitFacts& facts);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::uint32_t listed_ = 0;
};

}  // namespace engram::host
