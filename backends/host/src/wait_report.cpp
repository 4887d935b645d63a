#include "engram/host/wait_report.hpp"

#include <fmt/format.h>

namespace engram::host {
namespace {

constexpr std::uint32_t kListed = 4;  // warps of a report

std::string what_for(const Op& op, const WaitFacts& facts) {
  if (facts.queue) {
    const WaitFacts::Queue& q = *facts.queue;
    return fmt::format("{} on QP {} to rank {} ({} un-rung, {} outstanding, depth {})",
                       stops(op.kind) ? "completions" : "a free slot", q.qp, q.peer.value, q.unrung,
                       q.outstanding, q.depth);
  }
  switch (op.kind) {
    case OpKind::wait_signal:
      return fmt::format("signal {} to reach {}, now {}", op.signal, op.value, facts.signal);
    case OpKind::wait_word:
      return fmt::format("a barrier word to reach {}, now {}", static_cast<std::int64_t>(op.value),
                         facts.word);
    default:
      return fmt::format("a flush of QP {}", op.qp);
  }
}

}  // namespace

bool WaitReport::add(const Kernel& kernel, Warp& warp, const WaitFacts& facts) {
  if (++listed_ > kListed) {
    text_ += "; ...";
    return false;
  }
  if (!text_.empty()) text_ += "; ";
  text_ += fmt::format("rank {} ({} warp {} of block {}) waits for {}", warp.rank().value,
                       name_of(kernel.kind), warp.position().warp, warp.position().block,
                       what_for(*warp.head(), facts));
  return true;
}

}  // namespace engram::host
