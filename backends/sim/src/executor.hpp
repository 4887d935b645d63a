// The sim executor: warps spend simulated time to issue, and the fabric answers their requests.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/host/executor.hpp"
#include "engram/host/host_transport.hpp"
#include "engram/host/peer_access.hpp"
#include "engram/sim_backend/sim_backend.hpp"
#include "injected.hpp"
#include "link_meter.hpp"

namespace engram::sim_backend {

/// Slots by number, at stable addresses; freed numbers are used again.
template <class T>
class Pool {
 public:
  std::uint32_t take(T value) {
    if (free_.empty()) {
      if (size_ % kChunk == 0) chunks_.push_back(std::make_unique<T[]>(kChunk));
      free_.push_back(size_++);
    }
    const std::uint32_t at = free_.back();
    free_.pop_back();
    (*this)[at] = std::move(value);
    return at;
  }
  void give_back(std::uint32_t at) { free_.push_back(at); }
  void fetch(std::uint32_t at) { __builtin_prefetch(&(*this)[at]); }  // asks the cache for it
  [[nodiscard]] T& operator[](std::uint32_t at) { return chunks_[at / kChunk][at % kChunk]; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::uint32_t size_ = 0;
  std::vector<std::uint32_t> free_;
};

class SimExecutor final : public host::Executor, public sim::FabricClient {
 public:
  SimExecutor(const SimOptions& options, const core::Capabilities& capabilities);
  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main);

  // host::Executor, from a rank's actor (executor.cpp)
  [[nodiscard]] const core::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const core::RankGrid& grid() const override { return options_.grid; }
  [[nodiscard]] host::Memory& memory() override { return memory_; }
  [[nodiscard]] core::Defects defects() const override { return options_.defects; }
  void store(Rank rank, std::uint64_t offset, std::span<const std::byte> bytes) override;
  [[nodiscard]] Nanos now() const override;
  [[nodiscard]] Result<void> open_queues(Rank rank, const core::QueueShape& queues) override;
  void launch(Rank rank, std::shared_ptr<host::Kernel> kernel) override;
  [[nodiscard]] Result<void> join(Rank rank, host::Kernel& kernel, Nanos limit) override;
  [[nodiscard]] Result<void> meet(Rank rank) override;

  // sim::FabricClient, from the model (completions.cpp)
  void remote_access(sim::QpId qp, const sim::Request& request) override;
  void completed(sim::QpId qp, const sim::Request& request, sim::Status status) override;
  void slot_freed(sim::QpId qp) override;
  void timer(std::uint64_t tag) override;
  void loaded(std::uint64_t tag) override;
  void soon(const sim::Request& request) override;
  void fault_began(const sim::Fault& fault) override;

 private:
  struct RunningWarp {
    std::shared_ptr<host::Kernel> kernel;
    host::Warp* warp = nullptr;
    sim::Picos begun{0};
    sim::Picos deadline{0};    // of the wait it is blocked in
    std::uint32_t loads = 0;   // direct loads under way
    std::uint32_t copies = 0;  // operations at the head that they carry out
    bool charged = false;      // the head's issue cost is paid
    bool blocked = false;      // on a slot or an answer
    bool scheduled = false;    // a timer will step it
  };
  struct Queue {  // beside the fabric's QP: who waits for it
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};
    bool open = false, failed = false;
    Rank rank, peer;  // whose it is, and the far end
    std::uint64_t failed_at = 0;
    std::uint64_t posted = 0, completed = 0;  // from 0, whatever the fabric counts from
    std::vector<std::uint32_t> slot_waiters, done_waiters;
    std::uint64_t wake_at = kNever;  // completions that the first of done_waiters wants
  };
  using Posted = host::PeerAccess;
  struct GivenSignal {  // to a rank that does not see it yet
    Rank to;
    std::uint64_t signal = 0, value = 0;
  };
  struct FlowRead {
    std::uint64_t src_offset = 0, dst_offset = 0;
    std::uint32_t bytes = 0;
  };
  struct Flow {  // fidelity flow: the gets of one kernel from one peer over one plane
    Rank rank, peer;
    std::uint32_t plane = 0;
    std::vector<FlowRead> reads;
    std::uint64_t bytes = 0;
    std::size_t next = 0;
    bool done = false, failed = false;
    std::vector<std::uint32_t> waiters;
  };
  struct FlowLaunch {
    struct Part {
      std::uint32_t flow = 0;
      std::uint64_t most_on_one_qp = 0, doorbells = 0;
      sim::Picos first_ring{0}, issued_over{0};  // from `begin`; from the first ring
    };
    Rank rank;
    std::uint32_t qps = 0;
    sim::Picos begin{0};
    std::size_t next = 0;     // to start
    std::vector<Part> flows;  // by first ring
  };
  struct PendingAdd {
    Rank rank;
    std::uint64_t offset;
    std::int32_t add;
  };
  struct RankState {
    std::vector<std::uint32_t> qps;  // [context * ranks + peer] = QpId + 1, 0 = none
    std::vector<std::uint64_t> signals;
    std::vector<std::uint32_t> signal_waiters, word_waiters;
    sim::SemaphoreId semaphore{};
    const host::Kernel* joins = nullptr;
    bool meets = false, drains = false;
    std::uint64_t outstanding = 0;  // requests without a completion
  };

  // Warps (warps.cpp)
  void step(std::uint32_t index);
  void schedule(std::uint32_t index, sim::Picos delay);
  void end_warp(std::uint32_t index);
  void block(std::uint32_t index, const host::Op& op);
  void wake(std::vector<std::uint32_t>& waiters);
  [[nodiscard]] bool post(std::uint32_t index, const host::Op& op);
  [[nodiscard]] bool start_copies(std::uint32_t index);
  void finish_copies(std::uint32_t index);
  [[nodiscard]] bool answer_wait(std::uint32_t index, const host::Op& op);
  [[nodiscard]] sim::Picos issue_cost(const host::Kernel& kernel, const host::Op& op);
  void expire(const host::Kernel* kernel);
  void end_kernel(Rank rank, std::shared_ptr<host::Kernel> kernel, sim::Picos delay);
  void note(std::uint64_t what, std::uint64_t a, std::uint64_t b);

  // Fidelity flow (flows.cpp)
  void launch_as_flows(Rank rank, const std::shared_ptr<host::Kernel>& kernel);
  void start_flows(std::uint32_t index);
  [[nodiscard]] bool start_flow(const FlowLaunch& launch, const FlowLaunch::Part& part);
  void flow_access(std::uint32_t index, const sim::Request& request);

  void drain(Rank rank);
  [[nodiscard]] sim::QpId open_qp(Rank rank, std::uint32_t context, Rank peer);
  [[nodiscard]] Queue& queue(sim::QpId qp);
  void deliver_row(Rank to, Rank from, const Posted& op);
  void settle_stores(Rank rank);
  void give_signal(const GivenSignal& given);
  void report_faults();
  void report_background();
  [[nodiscard]] std::string name_of_fault(std::uint32_t fault) const;
  [[nodiscard]] std::string cause(std::optional<Rank> rank) const;
  [[nodiscard]] std::int32_t& word(Rank rank, std::uint64_t offset);
  [[nodiscard]] sim::Memory storage_memory() const;
  [[nodiscard]] std::string who_waits();
  void collect(core::BackendStats& stats);

  const SimOptions& options_;
  const core::Capabilities& capabilities_;
  host::Memory memory_;
  std::optional<core::QueueShape> queue_shape_;
  std::unique_ptr<sim::Engine> engine_;
  std::unique_ptr<sim::Fabric> fabric_;
  std::unique_ptr<LinkMeter> links_;
  CorruptRows corrupt_rows_;
  LateStores late_stores_;
  Pool<GivenSignal> late_signals_;
  Pool<RunningWarp> warps_;
  Pool<Posted> posted_;
  Pool<PendingAdd> adds_;
  std::deque<Queue> queues_;  // by QpId
  std::deque<Flow> flows_;
  Pool<FlowLaunch> flow_launches_;
  std::deque<RankState> ranks_;
  Pool<std::shared_ptr<host::Kernel>> ending_;  // their last warp has ended, they drain
  std::vector<std::byte> row_;                  // on its way past the checker
  Pool<std::weak_ptr<host::Kernel>> expiring_;  // their waits have a deadline
  std::vector<Result<void>> results_;
  std::uint32_t met_ = 0;
  Error fatal_;  // an error of the fabric that no call could return
  bool has_fatal_ = false;
  std::optional<sim::Picos> failed_at_;  // when the first rank gave up
  std::vector<std::uint32_t> begun_;     // entries of the plan, as they came
  std::uint64_t wrong_rows_ = 0;
  core::BackendStats stats_;
};

/// Marks a flow's number in RequestSlot::queue.
inline constexpr std::uint32_t kFlowBit = 0x80000000;

/// What a timer's or load's tag names: 8 bits of kind, 56 of number.
enum class TagKind : std::uint8_t { warp, add, expiry, kernel_end, flow, stores, signal };
[[nodiscard]] constexpr std::uint64_t make_tag(TagKind kind, std::uint64_t number) {
  return static_cast<std::uint64_t>(kind) << 56 | number;
}

}  // namespace engram::sim_backend
