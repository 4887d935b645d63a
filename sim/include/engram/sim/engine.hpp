// SimGrid as the engine: one host and one actor a rank, a clock in whole picoseconds, semaphores.
//
// engine.cpp is the only file that includes SimGrid headers. The fabric is one custom SimGrid
// resource model; its events never reach SimGrid, which is entered only when an actor must run.
// The clock of this class is the truth; SimGrid's, in seconds as a double, follows it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/sim/event_queue.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

using SemaphoreId = Index<struct SemaphoreTag>;

/// Event kinds below this number belong to the engine.
inline constexpr std::uint32_t kFirstHandlerKind = 16;

/// Why an actor's wait ended.
enum class Wake {
  acquired,
  timed_out,
  stopped,  ///< the run is over (deadlock, watchdog, stop()): the actor must return
};

/// Whoever owns the events of kinds >= kFirstHandlerKind; runs in model context.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void handle(const Event& event) = 0;
  /// Appends one line for each thing that is still pending; asked for on deadlock and watchdog.
  virtual void describe_pending(std::string& text) const = 0;
};

struct EngineOptions {
  std::uint32_t ranks = 1;
  Picos watchdog{0};              ///< the run fails with timed_out past this time; 0 = none
  std::uint32_t stack_kib = 256;  ///< of each actor; fixed by the first engine of a process
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  bool thread_contexts = true;  ///< LeakSanitizer misses leaks on SimGrid's own stacks
#else
  bool thread_contexts = false;  ///< 70 times slower; fixed by the first engine of a process
#endif
};

/// One at a time in a process, several one after another. Times start from zero in each.
class Engine {
 public:
  /// Errors: invalid_argument when ranks is 0 or another Engine is alive.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Runs `body` once a rank, each in its own actor, until all have returned and no event is left
  /// that could matter to one. At most once an engine.
  /// Errors: deadlock (every actor waits and no event is left), naming who waits for what;
  /// timed_out (watchdog), the same; whatever stop() was given; internal when a body threw.
  [[nodiscard]] Result<void> run(std::function<void(Rank)> body);

  [[nodiscard]] std::uint32_t num_ranks() const;
  [[nodiscard]] Picos now() const;
  /// True while an event is being handled, false while an actor runs.
  [[nodiscard]] bool in_model() const;

  /// The events of the run. Push with a time >= now().
  [[nodiscard]] EventQueue& events();
  /// Must be set before an event of kind >= kFirstHandlerKind is due; not owned.
  void set_handler(EventHandler* handler);

  /// `label` names it in a deadlock report: "rank 3: fetch of layer 1".
  [[nodiscard]] SemaphoreId create_semaphore(std::string label, std::uint64_t count = 0);
  /// Any context. Waiters are woken first come, first served.
  void release(SemaphoreId semaphore, std::uint64_t count = 1);
  /// Actor context.
  [[nodiscard]] Wake acquire(SemaphoreId semaphore);
  [[nodiscard]] Wake acquire_for(SemaphoreId semaphore, Picos limit);
  /// Actor context. Never answers `acquired`: `timed_out` is the good outcome.
  [[nodiscard]] Wake sleep_until(Picos time);
  [[nodiscard]] Wake sleep_for(Picos length) { return sleep_until(now() + length); }

  /// Any context: ends the run; every wait answers `stopped`, run() answers `error`. First one
  /// wins.
  void stop(Error error);
  [[nodiscard]] bool stopped() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// "SimGrid 3.32.0", for reports.
[[nodiscard]] std::string simgrid_version();

}  // namespace engram::sim
