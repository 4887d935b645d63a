// Faults as values: what breaks, when, for how long. Given at creation, so a run can be repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/model/topology.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

enum class FaultKind : std::uint8_t {
  link_down,              ///< `link` loses what it carries and takes nothing until `until`
  rank_dead,              ///< `rank`'s NIC neither sends nor answers
  memory_node_gone,       ///< the same, for a rank that only serves memory
  rank_slow,              ///< everything `rank`'s NIC does takes `factor` times as long
  nic_error,              ///< the next `count` requests `rank` starts (on `qp`) end in an error
  delayed_doorbell,       ///< `rank`'s doorbells are seen `delay` later
  reordered_completions,  ///< completions at `rank` come up to `delay` late, QP by QP
  late_visibility,        ///< stores into and of `rank` are seen `delay` later than made
};

struct Fault {
  FaultKind kind = FaultKind::link_down;
  Picos at{0};
  Picos until = Picos::max();  ///< of the kinds that last; a rank that died stays dead
  Rank rank{};
  model::LinkIndex link{};
  double factor = 1;
  Picos delay{0};
  std::uint64_t count = 1;
  std::optional<QpIndex> qp;  ///< nic_error: of this QP alone, whatever its peer
  std::string label;          ///< who asked for it, for reports
};

/// What is lost on the way is sent again: a request fails (Status::error, and with it its QP) at
/// the latest `retransmit_timeout * (retries + 1)` after it was lost. The defaults keep tests
/// short; InfiniBand's own are 4.096 us * 2^timeout, often 67 ms.
struct FaultPlan {
  std::vector<Fault> faults;
  Picos retransmit_timeout = std::chrono::microseconds{100};
  std::uint32_t retries = 3;
};

[[nodiscard]] const char* name_of(FaultKind kind);

}  // namespace engram::sim
