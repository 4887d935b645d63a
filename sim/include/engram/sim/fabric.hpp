// The simulated fabric: queue pairs, NICs, a network with virtual lanes, and direct loads.
//
// Protocol code posts requests and rings; the fabric answers through one FabricClient. Costs of the
// issuing thread (building a request, the MMIO store of a doorbell, locks) are the caller's: it
// charges them with at() or by sleeping. Everything from the doorbell on is charged here, as
// model/profile.hpp describes an unloaded request:
//
//   ring      the NIC takes one doorbell per 1/doorbell_rate; doorbells of QPs ring in parallel
//   start     QPs with work take turns; each start holds the engine 1/rate of its kind, plus a miss
//             when the connection is not cached; one QP starts at most qp_rate; reads and adds in
//             flight stay within the QP's limit
//   there     request_latency, then the links; packets of at most the MTU
//   serve     responder engine, response_latency (+ read_latency), PCIe: bytes are read HERE
//             writes are seen in order, and no read or add passes a write of its QP (put + signal)
//   back      links, PCIe, completion_latency: completed, in order on a QP (profile flag)
//
// Queues are lossless: a lane's packets wait for credits of the next buffer, and a NIC's queue
// grows instead of dropping. A credit returns at the instant a packet leaves, without latency.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/model/lanes.hpp"
#include "engram/model/profile.hpp"
#include "engram/model/topology.hpp"
#include "engram/sim/engine.hpp"
#include "engram/sim/fault.hpp"
#include "engram/sim/observer.hpp"
#include "engram/sim/request.hpp"

namespace engram::sim {

/// Told what happens, in model context: may post, ring, load, set timers and release semaphores,
/// must not wait. One for all ranks; QpId and tags say whose.
class FabricClient {
 public:
  virtual ~FabricClient() = default;
  /// The instant the owner's memory is read or written: copy the bytes now (a read: from the
  /// owner's memory; a write or add: into it). Once a request, also when it is sent again.
  virtual void remote_access(QpId qp, const Request& request) = 0;
  /// The completion is visible to the poster. Error: the QP is dead; what else it holds fails too.
  virtual void completed(QpId qp, const Request& request, Status status) = 0;
  /// A slot is free on a QP that has_slot() was false for.
  virtual void slot_freed(QpId qp) = 0;
  virtual void timer(std::uint64_t tag) = 0;
  /// A LoadRequest's or FlowRequest's bytes have all arrived.
  virtual void loaded(std::uint64_t tag) = 0;
  /// `request` is about to reach the remote memory (perhaps): fetch what that will touch.
  virtual void soon(const Request&) {}
  /// A fault of the plan begins.
  virtual void fault_began(const Fault&) {}
};

enum class Fidelity : std::uint8_t {
  message,  ///< each request has its own events
  batch,    ///< requests of one doorbell and QP travel together, as far as limits allow
  flow,     ///< as batch; meant for bulk_flow(): one flow a (source, peer, plane) and call
};

enum class Routing : std::uint8_t {
  ecmp,      ///< model::flow_hash of (source, destination, QP, plane) picks, for good
  adaptive,  ///< each packet takes the least queued of the equal next hops
};

/// Who slows a sender beside the credits. DCQCN: profile `congestion`, src/congestion.hpp.
enum class Congestion : std::uint8_t { none, dcqcn };

/// Virtual lanes: own queues and credits at every port, served by deficit round robin.
struct Lanes {
  static constexpr std::uint8_t kNoLane = 255;
  std::vector<std::uint32_t> weights = {1};      ///< [lane], 1 to 15; 0 = unused
  std::array<std::uint8_t, 16> service_level{};  ///< [SL] -> lane, or kNoLane: cannot be sent

  [[nodiscard]] static Lanes from(const model::LaneConfig& config);
  [[nodiscard]] std::uint8_t lane(std::uint32_t level) const {
    return level < service_level.size() ? service_level[level] : kNoLane;
  }
};

enum class BackgroundKind : std::uint8_t {
  flow,    ///< on the links alone, in plane 0: delivered and forgotten
  reads,   ///< `to` reads from `from`, as from many QPs: NICs, PCIe and links
  writes,  ///< `from` writes into `to`, in the same way
};
/// QPs of background entries are numbered from here; they have no client.
inline constexpr QpIndex kFirstBackgroundQp{0xF0000000u};

/// Traffic of others: messages of `message` bytes at `rate`, offered while the run itself has a
/// rung request or a load under way; reads and writes that find their QP full are not made. With
/// congestion control a flow offers nothing while its sender holds back what it offered before.
struct Background {
  BackgroundKind kind = BackgroundKind::flow;
  Rank from, to;  ///< as the bytes go
  BytesPerSecond rate{};
  Bytes message{4096};
  std::uint32_t service_level = 0;
  Picos start{0}, stop = Picos::max();
  std::string label = {};  ///< who asked for it, for reports
};

/// What real machines leave open, drawn from the seed; all zero = nothing is perturbed.
struct Perturbation {
  std::uint64_t seed = 0;
  Picos doorbell{0};          ///< a doorbell is seen up to this much later (order of one QP kept)
  Picos completion{0};        ///< a completion comes up to this much later (order of one QP kept)
  Picos visibility{0};        ///< a write is seen up to this much later
  bool engine_order = false;  ///< which ready QP the engine takes next is drawn, not round robin
};

struct FabricOptions {
  model::Profile profile;
  model::Topology topology;  ///< must hold at least the engine's ranks
  Fidelity fidelity = Fidelity::message;
  Routing routing = Routing::ecmp;
  std::uint64_t ecmp_seed = 0;  ///< as given to model::ecmp_collisions
  Lanes lanes{};
  Congestion congestion = Congestion::none;
  std::vector<Background> background{};
  FaultPlan faults{};
  Perturbation perturbation{};
  std::uint64_t first_request = 0;  ///< where QP counters start (tests of wrap-around)
  Observer* observer = nullptr;     ///< not owned
};

class Fabric {
 public:
  /// Installs itself as the engine's handler. Engine and client must outlive it.
  /// Errors: invalid_argument, naming the rank, lane, fault or background entry that does not fit.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> create(Engine& engine, FabricClient& client,
                                                              FabricOptions options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// The QP of (local, index, remote); opened on the first call, which fixes its options.
  /// local == remote is the NIC's loopback.
  /// Errors: invalid_argument for a depth or a service level the profile does not allow, or too
  /// many QPs on a NIC, naming the accepted range; out_of_range for a rank without NIC.
  [[nodiscard]] Result<QpId> open_qp(Rank local, QpIndex index, Rank remote,
                                     const QpOptions& options = {});
  struct QpInfo {
    Rank local, remote;
    QpIndex index;
    QpOptions options;  ///< with the defaults filled in
  };
  [[nodiscard]] QpInfo qp_info(QpId qp) const;
  [[nodiscard]] std::uint32_t num_qps() const;

  /// Whether post() may be called. When false, slot_freed() will tell.
  [[nodiscard]] bool has_slot(QpId qp);
  /// Queues without ringing. Precondition: has_slot (a full queue is never a drop).
  void post(QpId qp, const Request& request);
  /// Shows the NIC everything posted so far. A ring with nothing new is counted and does nothing.
  void ring(QpId qp);
  [[nodiscard]] QpCounters counters(QpId qp) const;

  /// client.timer(tag) at `time` (>= now).
  void at(Picos time, std::uint64_t tag);
  /// client.loaded(tag) once the rows have arrived. Precondition: ranks and SM exist.
  void load(const LoadRequest& request);
  /// client.loaded(tag) once all have completed; remote_access and completed come in pieces whose
  /// Request::count says how many requests each stands for, with the flow's tag.
  [[nodiscard]] Result<void> bulk_flow(const FlowRequest& flow);

  /// Ring to completion on an idle fabric, without perturbation or faults.
  [[nodiscard]] Picos unloaded_time(Rank local, Rank remote, const Request& request) const;

  [[nodiscard]] const NicCounters& nic_counters(Rank rank) const;
  [[nodiscard]] const LinkCounters& link_counters(model::LinkIndex link) const;
  [[nodiscard]] const LinkCounters& nvlink_out(Rank rank) const;
  [[nodiscard]] const LinkCounters& nvlink_in(Rank rank) const;
  /// GPU loads over the host link of `rank`.
  [[nodiscard]] const LinkCounters& host_link(Rank rank) const;
  [[nodiscard]] const CongestionCounters& congestion() const;
  [[nodiscard]] const FabricOptions& options() const;
  /// Faults that the client carries out, because the fabric knows no memory. How much later than
  /// made a store into `rank`'s memory, or one of its own, is seen just now.
  [[nodiscard]] Picos visibility_delay(Rank rank);
  /// The last fault that took something from a QP: a packet on a link that is down or at a rank
  /// that is dead, a request that its NIC failed. None: all is well, or was until now.
  struct Trouble {
    std::uint32_t fault = 0;   ///< entry of the plan
    std::uint64_t losses = 0;  ///< messages lost or failed, to this and to earlier faults
    bool failed = false;       ///< the QP is dead; false: what was lost is sent again
  };
  [[nodiscard]] std::optional<Trouble> trouble(QpId qp) const;
  /// How often entry `fault` of the plan mattered: requests, doorbells, completions or accesses
  /// that it changed, packets that it lost or led elsewhere. 0 = the run is as without it.
  [[nodiscard]] std::uint64_t fault_effects(std::uint32_t fault) const;
  /// Messages that entry `background` has sent.
  [[nodiscard]] std::uint64_t background_messages(std::uint32_t background) const;
  [[nodiscard]] std::uint64_t num_events() const;  ///< handled so far

 private:
  class Impl;
  explicit Fabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] const char* name_of(RequestKind kind);
[[nodiscard]] const char* name_of(Fidelity fidelity);

}  // namespace engram::sim
