// Actors that could run now; any of them is removed or picked in constant time.
#pragma once

#include <cstdint>
#include <vector>

#include "queue.hpp"

namespace engram::loopback {

/// SplitMix64: small, fast, and the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, n). Precondition: n > 0.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }

 private:
  std::uint64_t state_;
};

class ReadyList {
 public:
  void set(Actor& actor, bool ready) {
    if (ready == (actor.place >= 0)) return;
    if (ready) {
      actor.place = static_cast<std::int32_t>(actors_.size());
      actors_.push_back(&actor);
      return;
    }
    Actor* last = actors_.back();
    actors_[static_cast<std::size_t>(actor.place)] = last;
    last->place = actor.place;
    actors_.pop_back();
    actor.place = -1;
  }
  [[nodiscard]] std::size_t size() const { return actors_.size(); }
  [[nodiscard]] Actor& at(std::size_t i) const { return *actors_[i]; }

 private:
  std::vector<Actor*> actors_;
};

}  // namespace engram::loopback
