// One QP of the loopback fabric: slots, doorbell, reads in flight, completions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/host/warp.hpp"

namespace engram::loopback {

/// Anything the scheduler can pick. `place` is its position in a ready list, or -1.
struct Actor {
  enum class Kind : std::uint8_t { main, warp, queue, words };
  Kind kind = Kind::main;
  std::uint32_t index = 0;
  std::int32_t place = -1;
};

struct Slot {
  host::Op op;
  bool started = false, delivered = false, failed = false;
};

/// Counters are 64-bit and may start anywhere. The NIC reports a completion by the low 16 bits of
/// its request's number, as RDMA NICs do.
struct Queue {
  Rank rank, peer;
  std::uint32_t qp = 0, depth = 0;
  std::uint64_t posted = 0, rung = 0, started = 0, completed = 0;
  std::optional<std::uint64_t> failed_at;  ///< number of the first request that ended in an error
  std::deque<Slot> slots;                  ///< requests completed .. posted
  std::vector<std::uint32_t> slot_waiters, done_waiters;  ///< warps
  Actor actor;

  [[nodiscard]] Slot& slot(std::uint64_t number) { return slots[number - completed]; }
  [[nodiscard]] bool full() const { return posted - completed >= depth; }
  /// Advances by the 16-bit index of a completion.
  void complete_to(std::uint16_t index) {
    completed += static_cast<std::uint16_t>(index - static_cast<std::uint16_t>(completed));
  }
};

}  // namespace engram::loopback
