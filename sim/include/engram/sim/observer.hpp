// Who watches a run: spans and arrows for a Chrome trace, and counters for bounds and floors.
#pragma once

#include <cstdint>
#include <string_view>

#include "engram/core/units.hpp"
#include "engram/sim/request.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

/// One line of the picture. `owner` is a rank (QP, NIC, SM, NVLink) or 0 (link); `index` is the
/// QpId, 0, the SM, the direction (0 out, 1 in) or the LinkIndex.
struct Track {
  enum class Kind : std::uint8_t { qp, nic_engine, nic_responder, link, sm, nvlink, rank } kind;
  std::uint32_t owner = 0, index = 0;
  friend bool operator==(const Track&, const Track&) = default;
};

/// Calls come in the order of the simulation, which two equal runs share. Spans may end later than
/// the present instant; names are literals. `id` joins what belongs to one request.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void span(Track track, std::string_view name, Picos begin, Picos end,
                    std::uint64_t id) = 0;
  virtual void instant(Track track, std::string_view name, Picos at, std::uint64_t id) = 0;
  /// An arrow from one track to another; the ends share `id`.
  virtual void flow_begin(Track track, Picos at, std::uint64_t id) = 0;
  virtual void flow_end(Track track, Picos at, std::uint64_t id) = 0;
};

/// Of one direction of a cable, or of one direction of a GPU's NVLink port.
struct LinkCounters {
  Picos busy{0};
  std::uint64_t bytes = 0, packets = 0;
  std::uint64_t most_queued = 0;  ///< bytes that waited for it at the worst instant
};

/// What congestion control saw and did; all zero while it is off.
struct CongestionCounters {
  std::uint64_t marked = 0;         ///< packets
  std::uint64_t cuts = 0;           ///< notifications that reached a sender
  std::uint64_t longest_queue = 0;  ///< bytes that a packet met at a switch's port, at most
  BytesPerSecond slowest{};         ///< of all flows; 0 = none was slowed
};

struct NicCounters {
  std::uint64_t doorbells = 0;
  std::uint64_t reads = 0, writes = 0, atomics = 0;  ///< started
  std::uint64_t served = 0, received = 0;            ///< reads and adds answered, writes taken in
  std::uint64_t completed = 0, failed = 0, resent = 0;
  std::uint64_t requester_misses = 0, responder_misses = 0;  ///< of the connection cache
  Picos engine_busy{0}, responder_busy{0}, pcie_read_busy{0}, pcie_write_busy{0};
};

}  // namespace engram::sim
