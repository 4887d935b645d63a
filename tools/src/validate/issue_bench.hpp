// Issuing threads on a simulated fabric: what a micro-benchmark of a GPU's queues does, and when.
//
// A warp's lanes build their requests side by side (issue.build once for issue.warp_parallel of
// them); rings of a warp come one after another, each costing issue.doorbell. Several SMs on one
// context take turns behind its lock. Nothing here knows a published figure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/model/profile.hpp"
#include "engram/sim/engine.hpp"
#include "engram/sim/fabric.hpp"

namespace engram::validate {

/// One warp, or a part of it, that posts equal requests to one QP.
struct WarpPlan {
  sim::QpId qp;
  std::uint32_t lanes = 1;
  std::uint32_t per_doorbell = 1;  ///< requests on the QP between two rings
  std::uint64_t requests = 1;      ///< of all lanes
  sim::Request request;
  bool warps_share = false;  ///< other warps of the block use the QP: issue.block_lock
  bool sms_share = false;    ///< other SMs use it: one at a time, issue.shared_lock
};

/// When things happened, from the first instruction of the first thread.
struct Timing {
  sim::Picos quarter{};  ///< a quarter of the requests had completed
  sim::Picos end{};      ///< all had
  std::uint64_t requests = 0;

  /// Over the last three quarters: what a long run settles to.
  [[nodiscard]] double steady_per_second() const;
  /// Over all of it, first and last latency included.
  [[nodiscard]] double per_second() const;
};

/// A fabric of `ranks` ranks on one switch, and the threads on its GPUs. Runs once.
class IssueBench final : public sim::FabricClient {
 public:
  /// Errors: those of the topology and the fabric.
  [[nodiscard]] static Result<std::unique_ptr<IssueBench>> create(const model::Profile& profile,
                                                                  std::uint32_t ranks);
  ~IssueBench() override;

  [[nodiscard]] Result<sim::QpId> qp(std::uint32_t local, std::uint32_t remote,
                                     std::uint32_t index = 0);
  void add(const WarpPlan& plan);

  /// Starts every warp at time zero and waits for all completions.
  /// Errors: deadlock, or timed_out after a second of simulated time.
  [[nodiscard]] Result<Timing> run();
  /// Starts every warp, lets one message of `request`'s kind go there and back between ranks 0 and
  /// 1, and answers how long it took. The QPs of the two directions are given; a side `behind_lock`
  /// waits for its turn on the shared context.
  [[nodiscard]] Result<sim::Picos> ping_pong(sim::QpId there, sim::QpId back,
                                             const sim::Request& request, bool behind_lock);
  /// Starts `loads`; a load of SM i begins when the rows it needs to know have been read, if
  /// `index_bytes` is not 0: that many from own memory for each row.
  [[nodiscard]] Result<sim::Picos> gather(const std::vector<sim::LoadRequest>& loads,
                                          std::uint64_t index_bytes);

  // sim::FabricClient
  void remote_access(sim::QpId qp, const sim::Request& request) override;
  void completed(sim::QpId qp, const sim::Request& request, sim::Status status) override;
  void slot_freed(sim::QpId qp) override;
  void timer(std::uint64_t tag) override;
  void loaded(std::uint64_t tag) override;

 private:
  enum class Phase : std::uint8_t { build, post, ring, locked };
  struct Warp {
    WarpPlan plan;
    Phase phase = Phase::build;
    std::uint32_t ready = 0;  // built, not yet posted
    std::uint64_t left = 0;   // not yet built
    bool started = false;
  };
  struct Queue {
    std::uint64_t unrung = 0;
    sim::Picos lock_free{0};
    std::vector<std::size_t> waiting;  // warps, for a slot
  };

  explicit IssueBench(const model::Profile& profile) : profile_(profile) {}
  void step(std::size_t index);
  void build(std::size_t index);
  void post(std::size_t index);
  void take_turn(sim::QpId qp, std::uint64_t tag);
  void send_probe(bool back);
  void start_all();
  [[nodiscard]] Result<void> run_until_done();
  [[nodiscard]] Queue& queue(sim::QpId qp);

  const model::Profile& profile_;
  std::unique_ptr<sim::Engine> engine_;
  std::unique_ptr<sim::Fabric> fabric_;
  sim::SemaphoreId done_{};
  std::vector<Warp> warps_;
  std::deque<Queue> queues_;
  Timing timing_;
  std::uint64_t completed_ = 0, failed_ = 0;
  // ping_pong
  sim::QpId probe_qp_[2] = {};
  sim::Request probe_;
  bool probe_locked_ = false, probing_ = false;
  sim::Picos probe_end_{0};
  // gather
  std::vector<sim::LoadRequest> loads_;
  std::uint64_t loads_left_ = 0, index_bytes_ = 0;
};

}  // namespace engram::validate
