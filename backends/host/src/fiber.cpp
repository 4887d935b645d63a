#include "engram/host/fiber.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <utility>
#include <vector>

#include "engram/core/result.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace engram::host {
namespace {

namespace ctx = boost::context;

/// Freed stacks, kept for the next fiber of the same size; one list a thread, so no lock.
class StackPool {
 public:
  explicit StackPool(std::size_t size) : size_(size) {}
  ctx::stack_context allocate() {
    auto& free = of(size_);
    if (free.empty()) return ctx::fixedsize_stack(size_).allocate();
    ctx::stack_context stack = free.back();
    free.pop_back();
    return stack;
  }
  void deallocate(ctx::stack_context& stack) {
#if defined(__SANITIZE_ADDRESS__)
    // Frames of the ended body left their red zones behind.
    ASAN_UNPOISON_MEMORY_REGION(static_cast<char*>(stack.sp) - stack.size, stack.size);
#endif
    of(size_).push_back(stack);
  }

 private:
  struct FreeList {
    std::size_t size = 0;
    std::vector<ctx::stack_context> stacks;
    ~FreeList() {
      for (auto& stack : stacks) ctx::fixedsize_stack(size).deallocate(stack);
    }
  };
  static std::vector<ctx::stack_context>& of(std::size_t size) {
    thread_local FreeList small, large;  // warps and ranks: two sizes are in use
    FreeList& list = small.size == size || small.size == 0 ? small : large;
    list.size = size;
    return list.stacks;
  }
  std::size_t size_;
};

}  // namespace

namespace {

/// Thrown inside a body that is abandoned, so that its frames end like any others. (Boost would
/// unwind them itself, but behind the sanitizers' back.)
struct Abandoned {};

}  // namespace

struct Fiber::State {
  ctx::fiber inside;   // the body, while it is suspended
  ctx::fiber outside;  // whoever resumed it, while the body runs
  bool done = false, abandoned = false;
#if defined(__SANITIZE_ADDRESS__)
  const void* stack_bottom = nullptr;  // the body's
  std::size_t stack_size = 0;
  const void* outer_bottom = nullptr;
  std::size_t outer_size = 0;
  void* inner_fake = nullptr;

  void entered(void* fake) { __sanitizer_finish_switch_fiber(fake, &outer_bottom, &outer_size); }
#else
  void entered(void*) {}
#endif
};

Fiber::Fiber(std::size_t stack_bytes, std::function<void()> body)
    : state_(std::make_unique<State>()) {
  State* state = state_.get();
  StackPool pool(stack_bytes);
  ctx::stack_context stack = pool.allocate();
#if defined(__SANITIZE_ADDRESS__)
  state->stack_bottom = static_cast<char*>(stack.sp) - stack.size;
  state->stack_size = stack.size;
#endif
  const ctx::preallocated place(stack.sp, stack.size, stack);
  state->inside =
      ctx::fiber(std::allocator_arg, place, pool,
                 [state, body = std::move(body)](ctx::fiber&& outside) mutable {
                   state->entered(nullptr);
                   state->outside = std::move(outside);
                   try {
                     if (!state->abandoned) body();
                   } catch (const Abandoned&) {
                   }
                   body = nullptr;
                   state->done = true;
#if defined(__SANITIZE_ADDRESS__)
                   __sanitizer_start_switch_fiber(nullptr, state->outer_bottom, state->outer_size);
#endif
                   return std::move(state->outside);
                 });
}

Fiber::~Fiber() {
  if (state_ == nullptr || state_->done) return;
  state_->abandoned = true;
  resume();
}
Fiber::Fiber(Fiber&&) noexcept = default;
Fiber& Fiber::operator=(Fiber&& other) noexcept {
  std::swap(state_, other.state_);  // the other's destructor ends what was here
  return *this;
}

void Fiber::resume() {
  require(!state_->done, "a fiber that has ended is not resumed");
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, state_->stack_bottom, state_->stack_size);
#endif
  ctx::fiber back = std::move(state_->inside).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  if (!state_->done) state_->inside = std::move(back);
}

void Fiber::suspend() {
  State* state = state_.get();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&state->inner_fake, state->outer_bottom, state->outer_size);
#endif
  ctx::fiber outside = std::move(state->outside).resume();
  state->entered(
#if defined(__SANITIZE_ADDRESS__)
      state->inner_fake
#else
      nullptr
#endif
  );
  state->outside = std::move(outside);
  if (state->abandoned) throw Abandoned{};
}

bool Fiber::done() const { return state_->done; }

}  // namespace engram::host
