#include "engram/sim/event_queue.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace engram::sim {
namespace {

// The queue against a sorted map that keeps equal keys in order, under pushes between pops.
RC_GTEST_PROP(EventQueue, PopsByTimeThenByOrderOfPushing, ()) {
  EventQueue queue;
  std::multimap<std::int64_t, std::uint32_t> reference;
  std::int64_t now = 0;
  std::uint32_t next = 0;
  const auto rounds = *rc::gen::inRange(1, 60);
  for (int round = 0; round < rounds; ++round) {
    const auto pushes = *rc::gen::inRange(0, 80);
    const auto spread = *rc::gen::element<std::int64_t>(1, 3, 300, 70'000, 20'000'000, 1ll << 50);
    for (int i = 0; i < pushes; ++i) {
      const std::int64_t time = now + *rc::gen::inRange<std::int64_t>(0, spread);
      queue.push(Picos{time}, 16, next);
      reference.emplace(time, next++);
    }
    for (int pops = *rc::gen::inRange(0, 80); pops > 0 && !queue.empty(); --pops) {
      const Event event = queue.pop();
      RC_ASSERT(event.time == reference.begin()->first);
      RC_ASSERT(event.a == reference.begin()->second);
      reference.erase(reference.begin());
      now = event.time;
    }
    RC_ASSERT(queue.size() == reference.size());
  }
}

// What a preview shows is still to come, and each event is shown at most once.
struct Shown : EventPreview {
  void soon(std::span<const Event> events) override {
    for (const Event& event : events) ++times[event.a];
  }
  std::map<std::uint32_t, int> times;
};

TEST(EventQueue, PreviewsWhatIsDenseBeforeItIsPopped) {
  EventQueue queue;
  Shown shown;
  queue.set_preview(&shown);
  constexpr std::uint32_t kEvents = 5'000;
  for (std::uint32_t i = 0; i < kEvents; ++i)
    queue.push(Picos{1'000'000 + i * 700 % 400'000}, 16, i);
  std::size_t seen_before = 0;
  std::int64_t last = 0;
  for (std::uint32_t i = 0; i < kEvents; ++i) {
    const Event event = queue.pop();
    EXPECT_GE(event.time, last);
    last = event.time;
    seen_before += shown.times.count(event.a);
  }
  EXPECT_GE(seen_before, kEvents * 9 / 10);
  for (const auto& [event, times] : shown.times) EXPECT_EQ(times, 1) << event;
}

}  // namespace
}  // namespace engram::sim
