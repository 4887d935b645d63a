// The loopback executor: picks, step by step, what happens next.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/host/executor.hpp"
#include "engram/host/fiber.hpp"
#include "engram/host/host_transport.hpp"
#include "engram/loopback/loopback.hpp"
#include "queue.hpp"
#include "ready_list.hpp"

namespace engram::loopback {

class Scheduler final : public host::Executor {
 public:
  Scheduler(const LoopbackOptions& options, const core::Capabilities& capabilities);

  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main);

  [[nodiscard]] const core::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const core::RankGrid& grid() const override { return options_.grid; }
  [[nodiscard]] host::Memory& memory() override { return memory_; }
  [[nodiscard]] core::Defects defects() const override { return options_.defects; }
  void store(Rank rank, std::uint64_t offset, std::span<const std::byte> bytes) override {
    memory_.write(rank, host::Window::storage, memory_.own_segment(rank) + offset, bytes);
  }
  [[nodiscard]] Nanos now() const override { return Nanos{static_cast<std::int64_t>(now_)}; }
  [[nodiscard]] Result<void> open_queues(Rank rank, const core::QueueShape& queues) override;
  void launch(Rank rank, std::shared_ptr<host::Kernel> kernel) override;
  [[nodiscard]] Result<void> join(Rank rank, host::Kernel& kernel, Nanos limit) override;
  [[nodiscard]] Result<void> meet(Rank rank) override;

 private:
  struct Program {  // one rank's main
    std::unique_ptr<host::Fiber> fiber;
    std::unique_ptr<host::HostTransport> transport;
    Result<void> result;
    bool ended = false, timed_out = false;
    const host::Kernel* joins = nullptr;
    std::uint64_t deadline = 0;
    Actor actor;
  };
  struct RunningWarp {
    std::shared_ptr<host::Kernel> kernel;
    host::Warp* warp = nullptr;
    bool blocked = false;
    std::uint64_t deadline = 0;  // of the wait it is blocked in
    Actor actor;
  };
  struct PendingAdd {  // a store that its target does not see yet
    std::uint64_t offset;
    std::int32_t add;
  };
  struct RankState {
    std::vector<std::uint32_t> queues;  // [qp * ranks + peer] = index + 1, 0 = none
    std::vector<std::uint64_t> signals;
    std::vector<std::uint32_t> signal_waiters, word_waiters;
    std::vector<PendingAdd> pending_adds;
    Actor words_actor;
  };

  // Steps (scheduler.cpp)
  [[nodiscard]] Actor& pick();
  void step(Actor& actor);
  void step_main(Program& program);
  [[nodiscard]] bool pass_next_deadline();
  [[nodiscard]] std::string who_waits();

  // Operations of warps (operations.cpp)
  void step_warp(std::uint32_t index);
  [[nodiscard]] bool carry_out(std::uint32_t index, RunningWarp& running, const host::Op& op);
  [[nodiscard]] bool post(std::uint32_t index, RunningWarp& running, const host::Op& op);
  void end_warp(RunningWarp& running);
  void block(RunningWarp& running, const host::Op& op);
  void wake(std::vector<std::uint32_t>& waiters);
  void answer(RunningWarp& running, core::WaitStatus status, std::uint64_t value);
  [[nodiscard]] bool has_completed(const Queue& queue, std::uint64_t target) const;
  [[nodiscard]] core::WaitStatus status_of(const Queue& queue, std::uint64_t target) const;

  // The fabric (fabric.cpp)
  std::uint32_t open_queue(Rank rank, std::uint32_t qp, Rank peer);
  void ring(Queue& queue);
  void refresh(Queue& queue);
  void step_queue(Queue& queue);
  void step_words(std::uint32_t rank);
  void deliver(Queue& queue, Slot& slot);
  void complete(Queue& queue);
  [[nodiscard]] bool can_start(const Queue& queue) const;
  [[nodiscard]] bool can_deliver(const Queue& queue, std::uint64_t number) const;
  [[nodiscard]] std::int32_t& word(Rank rank, std::uint64_t offset) const;
  void violate(std::string what);
  void note(const char* what, std::uint32_t a, std::uint32_t b, std::uint64_t c);

  LoopbackOptions options_;
  const core::Capabilities& capabilities_;
  host::Memory memory_;
  std::optional<core::QueueShape> queue_shape_;
  Random random_;
  std::uint32_t code_share_ = 0;  // of 16 picks, how many prefer code over the fabric
  std::uint64_t now_ = 0;
  ReadyList code_, fabric_;  // mains and warps; queues and stores
  std::deque<Program> programs_;
  std::deque<RunningWarp> warps_;
  std::deque<Queue> queues_;
  std::deque<RankState> ranks_;
  std::uint32_t met_ = 0, running_programs_ = 0;
  std::string violation_;
  std::string stuck_;  // who waited for what when nothing could move
  core::BackendStats stats_;
  std::uint64_t deliveries_ = 0;
};

}  // namespace engram::loopback
