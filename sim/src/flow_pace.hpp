// How a flow is cut into pieces, and the roofs that are its own: arithmetic, no events.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engram/sim/request.hpp"

namespace engram::sim {

/// When a flow's requests may start, by the roofs of its own.
struct FlowPace {
  std::uint64_t started = 0;      ///< requests
  Picos issued_from{0}, each{0};  ///< QP ceilings, issuing threads and doorbells
  Picos window_from{0}, step{0};  ///< reads in flight: after the first window, one each step
  std::uint64_t window = 0;       ///< requests; 0 = any number

  /// Of the request after `before` others.
  [[nodiscard]] Picos earliest(std::uint64_t before) const {
    return std::max(issued_from + each * static_cast<std::int64_t>(before), by_window(before));
  }
  [[nodiscard]] Picos by_window(std::uint64_t before) const {
    const std::uint64_t over = before > window ? before - window : 0;
    return window_from + step * static_cast<std::int64_t>(over);
  }
  /// `count` requests start at `now`. What is issued waits for its turn and is made up for; a place
  /// in flight that waited is not, beyond these requests themselves.
  void start(std::uint64_t count, Picos now) {
    started += count;
    window_from += std::max(Picos{0}, now - by_window(started - 1));
  }
};

/// What the pace follows from, beside the flow.
struct FlowLimits {
  Picos now{0}, qp_interval{0};     ///< between two requests of one QP
  Picos issued_over{0};             ///< until the last doorbell is seen
  Picos round_trip{0};              ///< of a read on an idle fabric; 0 = nothing is held in flight
  std::uint32_t reads_of_a_qp = 1;  ///< in flight: by its limit, or by its depth where that is less
};
[[nodiscard]] FlowPace pace_of(const FlowRequest& flow, const FlowLimits& limits);

/// Requests of a flow in flight at once, where each of its QPs has at most `reads_of_a_qp`.
[[nodiscard]] std::uint64_t window_of(const FlowRequest& flow, std::uint32_t reads_of_a_qp);

/// Requests of each piece but the last. `segment`: payload of a packet; `window`: requests in
/// flight at once, 0 = any number; `disturbed`: other traffic or faults make answers late; `depth`:
/// pieces at most.
[[nodiscard]] std::uint64_t piece_of(const FlowRequest& flow, std::uint64_t segment,
                                     std::uint64_t window, bool disturbed, std::uint64_t depth);

}  // namespace engram::sim
