// What every part of the fabric shares: the events, the clock, the client, costs and chance.
#pragma once

#include <cstdint>

#include "engram/sim/fabric.hpp"
#include "pool.hpp"

namespace engram::sim {

enum class EventKind : std::uint32_t {
  doorbell = kFirstHandlerKind,  ///< a = QP, b = 16-bit producer index it shows
  engine_free,                   ///< a = rank
  qp_ready,                      ///< a = QP whose rate limit has passed
  inject,                        ///< a = train, b = generation: the request reaches the port
  port_free,                     ///< a = link
  arrive,                        ///< a = packet: its head reaches the end of its link
  credit,                        ///< a = buffer, b = bytes that left it
  memory,                        ///< a = train, b = generation: bytes are read (or added to)
  visible,                       ///< a = train: bytes written are seen
  acknowledge,                   ///< a = train, b = generation
  complete,                      ///< a = train
  retry,                         ///< a = train, b = generation that was lost
  timer,                         ///< b = tag
  load_issue,                    ///< a = load: its SM asks for the next piece
  load_at_owner,                 ///< a = piece
  load_at_reader,                ///< a = piece
  load_done,                     ///< a = load
  background,                    ///< a = entry
  paced,                         ///< a = flow: its next packet may enter the port
  notification,                  ///< a = flow: its sender learns of a mark
  fault_begin,                   ///< a = fault
  fault_end,                     ///< a = fault
};

/// Time per byte of a link; 0 = not a limit.
class ByteTime {
 public:
  ByteTime() = default;
  explicit ByteTime(BytesPerSecond rate) : picos_(rate.value > 0 ? 1e12 / rate.value : 0) {}
  [[nodiscard]] Picos operator()(std::uint64_t bytes) const {
    return Picos{static_cast<std::int64_t>(static_cast<double>(bytes) * picos_ + 0.5)};
  }

 private:
  double picos_ = 0;
};

/// splitmix64: the same numbers from the same seed everywhere.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15ull); }
  /// 0 <= answer <= most.
  Picos up_to(Picos most) {
    if (most <= Picos{0}) return Picos{0};
    return Picos{
        static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(most.count()) + 1))};
  }
  [[nodiscard]] static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

struct Context {
  EventQueue& events;
  FabricClient& client;
  const FabricOptions& options;
  Observer* observer;
  Chance chance;
  Picos now{0};
  /// Rung requests and loads under way; background traffic rests while there are none. Timers do
  /// not count: a deadline far away must not keep it running.
  std::uint64_t in_flight = 0;

  void push(Picos time, EventKind kind, std::uint32_t a = 0, std::uint64_t b = 0) {
    events.push(time, static_cast<std::uint32_t>(kind), a, b);
  }
};

}  // namespace engram::sim
