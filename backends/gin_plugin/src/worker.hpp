// The thread that turns descriptors into copies and completions into counters and signals.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "context.hpp"

namespace engram::gin_plugin {

/// What a communicator shares with its workers.
struct WorkerShared {
  Device& device;
  Regions& regions;
  Rank self;
  std::uint32_t num_ranks = 0;
  Nanos spin_time{};
  Remote* remote = nullptr;
  std::atomic<bool> failed{false};
  std::function<void(Error)> fail;
};

class Worker {
 public:
  /// Starts the thread; `engine` serves it alone. One worker of a communicator stores what
  /// mirrors of signals gather.
  Worker(WorkerShared& shared, std::unique_ptr<Engine> engine, bool stores_signals);
  ~Worker();

  void add(ContextState* context);
  /// Returns when the context's outstanding work is done, or after `limit`; it is forgotten then.
  void remove(ContextState* context, Nanos limit);
  /// Returns when all that was in flight has ended, or after `limit`.
  void quiesce(Nanos limit);

 private:
  void run();
  bool take_commands();
  bool leaves_now(bool more) const;
  bool poll_engine();
  bool advance(ContextState& context);
  bool take_descriptors(ContextState& context);
  bool take_requests(ContextState& context);
  void take(ContextState& context, const Operation& op);
  void take_rma(ContextState& context, const RmaOperation& rma, std::uint64_t number);
  bool data_part(ContextState& context, const Operation& op);
  void append(ContextState& context, const Copy& copy);
  bool room() const { return open_.size() - count_ >= kMostPieces; }
  bool ensure_open();
  void submit();
  Mark flush_behind_batch();
  void flush_remote(ContextState& context);
  void flush_remote_if_due(ContextState& context);
  bool start_add(ContextState& context, Pending& pending);
  bool deliver(ContextState& context, const Pending& pending);
  bool store_signals();
  void poison_signals();
  void poison_words(std::uint64_t step);
  void refuse(const ContextState& context, const Operation& op, Error error);

  /// Copies that one operation may need at most without waiting for a slot.
  static constexpr std::size_t kMostPieces = 8;
  static constexpr std::size_t kMostPending = 1 << 16;

  WorkerShared& shared_;
  std::unique_ptr<Engine> engine_;
  bool stores_signals_;
  std::uint64_t mirrors_generation_ = 0;
  std::vector<Region*> mirrored_;
  std::vector<ContextState*> contexts_;
  std::span<Copy> open_;
  std::size_t count_ = 0;         ///< copies in the open batch
  std::uint64_t open_bytes_ = 0;  ///< of them
  bool urgent_ = false;           ///< something waits for the open batch
  std::uint64_t submitted_ = 0;   ///< number of the last batch given to the engine
  std::uint64_t completed_ = 0;
  std::deque<std::pair<std::uint64_t, BatchId>> in_flight_;
  bool engine_lost_ = false;  ///< it reported an error
  std::chrono::steady_clock::time_point poisoned_at_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> commands_{false};
  std::vector<ContextState*> to_add_;
  std::vector<ContextState*> to_remove_;
  std::vector<ContextState*> to_drop_;
  std::uint64_t quiesce_asked_ = 0;
  std::uint64_t quiesce_done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace engram::gin_plugin
