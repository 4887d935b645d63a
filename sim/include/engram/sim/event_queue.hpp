// Events in time order; equal times in the order they were pushed.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
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

/// Told which events come next, in no order and not each: where thousands are under way, each
/// touches memory that the cache has lost, and may ask for it now.
class EventPreview {
 public:
  virtual ~EventPreview() = default;
  virtual void soon(std::span<const Event> events) = 0;
};

/// A radix heap: times popped never go back, so an event sits in the bucket of the highest digit
/// (of 8 bits) in which its time differs from the present one. Pushing is O(1). The lowest bucket
/// is spread over the digit below, or, once it is small, sorted into a run that is then popped; an
/// event usually moves twice. Events of equal time always share a bucket, and moving and sorting
/// keep their order, so no sequence number is stored.
class EventQueue {
 public:
  /// Precondition: `time` is not before the last popped event.
  void push(Picos time, std::uint32_t kind, std::uint32_t a = 0, std::uint64_t b = 0) {
    require(time.count() >= now_, "an event must not lie before the last handled one");
    ++size_;
    if (time.count() < run_end_) {
      insert({time.count(), kind, a, b});
    } else {
      place({time.count(), kind, a, b});
    }
  }

  /// Precondition: not empty.
  Event pop() {
    --size_;
    if (head_ == run_.size()) advance();
    now_ = run_[head_].time;
    return run_[head_++];
  }

  /// Not owned; null = nobody.
  void set_preview(EventPreview* preview) { preview_ = preview; }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kDigitBits = 8, kDigits = 1u << kDigitBits;
  static constexpr std::uint32_t kLevels = 64 / kDigitBits, kWords = kDigits / 64;
  static constexpr std::size_t kRun = 24;            // events that are sorted rather than spread
  static constexpr std::uint32_t kPreviewLevel = 2;  // a bucket of it spans 65 ns
  static constexpr std::size_t kLeastPreviewed = 4;
  static constexpr std::size_t kMostPreviewed = 1024;  // what they touch fits a cache
  using Bucket = std::vector<Event>;

  void place(const Event& event) {
    const auto differs = static_cast<std::uint64_t>(event.time ^ base_) | 1;
    const std::uint32_t level =
        (static_cast<std::uint32_t>(std::bit_width(differs)) - 1) / kDigitBits;
    const auto digit =
        static_cast<std::uint32_t>(event.time >> (level * kDigitBits)) & (kDigits - 1);
    buckets_[level * kDigits + digit].push_back(event);
    filled_[level][digit / 64] |= std::uint64_t{1} << (digit % 64);
    levels_ |= 1u << level;
  }

  // Into the run, after events of the same time.
  void insert(const Event& event) {
    std::size_t place = run_.size();
    run_.push_back(event);
    for (; place > head_ && run_[place - 1].time > event.time; --place)
      run_[place] = run_[place - 1];
    run_[place] = event;
  }

  // Makes a run of the earliest events.
  void advance() {
    run_.clear();
    head_ = 0;
    while (true) {
      const auto level = static_cast<std::uint32_t>(std::countr_zero(levels_));
      auto& words = filled_[level];
      std::uint32_t word = 0;
      while (words[word] == 0) ++word;
      const std::uint32_t digit =
          word * 64 + static_cast<std::uint32_t>(std::countr_zero(words[word]));
      words[word] &= words[word] - 1;
      if ((words[0] | words[1] | words[2] | words[3]) == 0) levels_ &= ~(1u << level);
      Bucket& lowest = buckets_[level * kDigits + digit];
      const std::int64_t width = std::int64_t{1} << (level * kDigitBits);
      base_ = lowest.front().time & ~(width - 1);
      if (level == 0 || lowest.size() <= kRun) {
        run_end_ = base_ + width;
        preview(lowest, run_end_);
        for (const Event& event : lowest) insert(event);
        lowest.clear();
        return;
      }
      moving_.swap(lowest);
      if (level <= kPreviewLevel) preview(moving_, base_ + width);
      for (const Event& event : moving_) place(event);
      moving_.clear();
    }
  }

  void preview(std::span<const Event> events, std::int64_t end) {
    if (preview_ == nullptr || events.size() < kLeastPreviewed || end <= previewed_) return;
    if (events.size() > kMostPreviewed) return;  // smaller parts of it will be
    previewed_ = end;
    preview_->soon(events);
  }

  std::vector<Bucket> buckets_ = std::vector<Bucket>(kLevels * kDigits);  // [level][digit]
  std::array<std::array<std::uint64_t, kWords>, kLevels> filled_{};       // which hold events
  std::uint32_t levels_ = 0;
  Bucket run_, moving_;  // run_[head_...] comes next, all before run_end_
  std::size_t head_ = 0, size_ = 0;
  std::int64_t base_ = 0;  // digits above the run's are those of every bucket below
  std::int64_t run_end_ = 0, now_ = 0, previewed_ = 0;
  EventPreview* preview_ = nullptr;
};

}  // namespace engram::sim
