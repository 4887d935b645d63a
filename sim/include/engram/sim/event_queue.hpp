// Events in time order; equal times in the order they were pushed.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

/// A typed event: `kind` says who handles it and what `a` and `b` mean. Plain data, no callable.
struct Event {
  std::int64_t time = 0;  ///< picoseconds
  std::uint32_t kind = 0;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
};

/// A radix heap: times popped never go back, so an event sits in the bucket of the highest bit in
/// which its time differs from the last popped time. Pushing is O(1); an event moves to a lower
/// bucket at most once a bit. Events of equal time always share a bucket and moving keeps their
/// order, so no sequence number is stored.
class EventQueue {
 public:
  /// Precondition: `time` is not before the last popped event.
  void push(Picos time, std::uint32_t kind, std::uint32_t a = 0, std::uint64_t b = 0) {
    require(time.count() >= last_, "an event must not lie before the last handled one");
    place({time.count(), kind, a, b});
    ++size_;
  }

  /// Precondition: not empty.
  Event pop() {
    --size_;
    if (head_ == buckets_[0].size()) refill();
    return buckets_[0][head_++];
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void place(const Event& event) {
    const auto differs = static_cast<std::uint64_t>(event.time ^ last_);
    const auto bucket = static_cast<std::size_t>(std::bit_width(differs));
    buckets_[bucket].push_back(event);
    filled_ |= std::uint64_t{1} << bucket;  // times are < 2^63, so bucket <= 63
  }

  void refill() {
    buckets_[0].clear();
    head_ = 0;
    filled_ &= ~std::uint64_t{1};
    const auto lowest = static_cast<std::size_t>(std::countr_zero(filled_));
    filled_ &= ~(std::uint64_t{1} << lowest);
    moving_.swap(buckets_[lowest]);
    last_ = moving_.front().time;
    for (const Event& event : moving_) last_ = event.time < last_ ? event.time : last_;
    for (const Event& event : moving_) place(event);
    moving_.clear();
  }

  std::array<std::vector<Event>, 64> buckets_;
  std::vector<Event> moving_;
  std::uint64_t filled_ = 0;
  std::size_t head_ = 0, size_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace engram::sim
