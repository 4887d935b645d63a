// The least time a fetch can take, one floor for each resource; the largest is what bounds it.
// A floor counts throughput alone: no latency, no header, no imbalance. No run can beat one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engram/core/units.hpp"
#include "engram/model/profile.hpp"

namespace engram::model {

/// What one rank (the busiest) has to move in one call.
struct FetchLoad {
  Bytes row{};  ///< payload of one row
  // Rows by the way they come.
  std::uint64_t rdma_reads = 0;
  std::uint64_t nvlink_rows = 0;
  std::uint64_t host_rows = 0;     ///< loads from host memory of the own node
  std::uint64_t local_rows = 0;    ///< own GPU memory
  std::uint64_t served_reads = 0;  ///< reads of others that this rank's NIC answers
  // How reads are posted. 0 = not known: the floors that need it are left out.
  std::uint32_t qps = 0;            ///< QPs that share the reads evenly
  std::uint32_t issue_threads = 0;  ///< threads that post at the same time, each on its own queue
  std::uint64_t doorbells = 0;      ///< rings of all threads
  std::uint32_t sms = 0;            ///< SMs that load rows over NVLink and from memory
};

struct Floor {
  std::string name;     ///< as Result's `bound`: "message_rate", "line", …
  Nanos time{};         ///< rounded up
  std::string formula;  ///< with its numbers: "12288 reads / 45 M/s"
};

/// Floors of `load`, the largest first; empty if nothing moves. Names: "message_rate" (reads a NIC
/// starts), "responder_rate" (serves), "qp_rate", "outstanding_reads" (slots over the shortest time
/// one is held), "doorbell_rate", "line" (port, the busier direction), "pcie", "nvlink",
/// "host_memory", "memory", "issue".
[[nodiscard]] std::vector<Floor> floors(const FetchLoad& load, const Profile& profile);

/// How long a read holds one of a QP's slots at least: from the port to the answer at the port,
/// across one switch, without queueing. `from_host`: the row lies in host memory.
[[nodiscard]] Nanos read_in_flight(const Profile& profile, bool from_host);

/// Bytes on NVLink, headers included, for one row of `row` bytes by SM loads.
[[nodiscard]] Bytes nvlink_wire_bytes(Bytes row, const NvlinkProfile& nvlink);

}  // namespace engram::model
