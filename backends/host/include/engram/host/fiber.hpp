// A function with a stack of its own, which stops in the middle and goes on later.
//
// Protocol code blocks (a wait, a full queue); on a host thousands of warps share one thread, so
// each runs on a fiber. Boost.Context switches in some ten nanoseconds; stacks are pooled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace engram::host {

class Fiber {
 public:
  /// `body` starts at the first resume(). `stack_bytes` is rounded up to a page.
  Fiber(std::size_t stack_bytes, std::function<void()> body);
  ~Fiber();  ///< a fiber that has not ended is unwound
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) noexcept;

  /// Runs until the body suspends or ends. Precondition: not done(), not called from within it.
  void resume();
  /// Called inside the body: back to whoever resumed it.
  void suspend();
  [[nodiscard]] bool done() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace engram::host
