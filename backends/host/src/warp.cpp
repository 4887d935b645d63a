#include "engram/host/warp.hpp"

namespace engram::host {
namespace {

constexpr std::size_t kWarpStack = 32 * 1024;

}  // namespace

Op* Warp::head() {
  while (next_ == ops_.size()) {
    ops_.clear();
    next_ = 0;
    if (ended_) {
      ops_ = {};  // the warp itself lives as long as its kernel
      return nullptr;
    }
    if (!started_) {
      started_ = true;
      fiber_ = std::make_unique<Fiber>(kWarpStack, [this] { (*body_)(*this); });
    }
    fiber_->resume();
    if (fiber_->done()) {
      ended_ = true;
      fiber_.reset();  // the stack goes back to the pool while the operations are still queued
    }
  }
  return &ops_[next_];
}

void Warp::pop() { ++next_; }

void Warp::record(const Op& op) {
  ops_.push_back(op);
  if (ops_.size() >= kAhead) fiber_->suspend();
}

core::WaitStatus Warp::stop(const Op& op) {
  ops_.push_back(op);
  fiber_->suspend();  // resumed by head() once the operation was popped
  return status_;
}

}  // namespace engram::host
