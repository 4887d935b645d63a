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

}  // namespace
}  // namespace engram::sim
