// What is asked of the fabric: requests on queues, loads and stores by SMs, whole flows.
#pragma once

#include <cstdint>

#include "engram/core/index.hpp"
#include "engram/core/units.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

/// A queue pair that was opened, direction local -> remote; dense, from 0.
using QpId = Index<struct QpIdTag>;

enum class RequestKind : std::uint8_t { read, write, write_inline, atomic_add };
enum class Memory : std::uint8_t { gpu, host };
enum class Status : std::uint8_t { ok, error };

/// One work request. The fabric does not look into memory: the client copies bytes when told.
struct Request {
  RequestKind kind = RequestKind::read;
  Memory local_memory = Memory::gpu;
  Memory remote_memory = Memory::gpu;
  /// How many equal requests this entry stands for; > 1 only where single ones do not matter.
  std::uint32_t count = 1;
  std::uint64_t bytes = 0;  ///< payload of one request; a remote add moves 8
  std::uint64_t tag = 0;    ///< the client's own
};

struct QpOptions {
  std::uint32_t depth = 0;              ///< requests the QP holds; 0 = the profile's queue_depth
  std::uint32_t outstanding_reads = 0;  ///< reads and adds in flight; 0 = the profile's limit
  std::uint32_t service_level = 0;      ///< mapped to a virtual lane by Lanes
  /// Several SMs submit to it. The lock is part of the issue cost, charged by the client; kept here
  /// for reports.
  bool shared = false;
  /// How many equal QPs this one stands for (fidelity `flow`): they share its limits and take turns
  /// as its connections and paths. Their plane is `plane`, their indices plane, plane + planes, ...
  std::uint32_t stands_for = 0;  ///< 0 = it is one QP, on the plane of its index
  std::uint32_t plane = 0;
};

/// Requests by number, never reused: posted >= rung >= completed. Count from the configured start.
struct QpCounters {
  std::uint64_t posted = 0, rung = 0, completed = 0;
};

enum class LoadPath : std::uint8_t {
  own,     ///< the reader's own GPU memory
  nvlink,  ///< a peer's GPU memory in the same NVLink domain
  host,    ///< host memory of the reader's node (own or a peer's segment)
};

/// How the bytes move.
enum class Mover : std::uint8_t {
  load,         ///< SMs of `reader` load rows from `owner`
  store,        ///< SMs of `reader` store rows into `owner`
  copy_engine,  ///< one contiguous copy from `owner` to `reader`; no SM
};

/// Rows that one SM reads (or stores) directly; several may be in flight for an SM, which serves
/// them in order.
struct LoadRequest {
  Rank reader, owner;
  LoadPath path = LoadPath::own;
  Mover mover = Mover::load;
  std::uint64_t rows = 0, row_bytes = 0;
  std::uint32_t sm = 0;  ///< of `reader`
  /// Range of host memory the rows are spread over; beyond the profile's host_reach a part of the
  /// loads misses. 0 = within reach. Other paths ignore it.
  Bytes spread{};
  /// What the SM keeps on its way at once: with it, rows come no faster than in_flight a latency.
  /// 0 = enough for the SM's own rate.
  Bytes in_flight{};
  std::uint64_t tag = 0;
};

/// `count` requests of `bytes_each` from one rank to another as one flow over `qps` QPs of a plane.
/// Its rate is that of the lowest roof: issuing threads, doorbells, the QPs' ceilings, their reads
/// in flight (or what they hold) a round trip; then whatever it shares: both NICs' engines, PCIe,
/// the links.
struct FlowRequest {
  Rank local, remote;
  RequestKind kind = RequestKind::read;
  Memory local_memory = Memory::gpu, remote_memory = Memory::gpu;
  std::uint64_t count = 0, bytes_each = 0;
  std::uint32_t qps = 1, service_level = 0, plane = 0;
  std::uint32_t depth = 0;           ///< requests each QP holds; 0 = the profile's queue_depth
  std::uint64_t most_on_one_qp = 0;  ///< requests of the fullest QP; 0 = they are spread evenly
  std::uint64_t doorbells = 1;
  Picos issued_over{0};  ///< from now until the last request is rung
  std::uint64_t tag = 0;
};

}  // namespace engram::sim
