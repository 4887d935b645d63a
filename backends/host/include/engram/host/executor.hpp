// What turns recorded operations into results: the loopback scheduler or the SimGrid model.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "engram/core/defects.hpp"
#include "engram/core/result.hpp"
#include "engram/core/transport.hpp"
#include "engram/core/units.hpp"
#include "engram/core/wait_error.hpp"
#include "engram/host/memory.hpp"
#include "engram/host/warp.hpp"

namespace engram::host {

/// Keeps the first error of a launch.
struct FirstError {
  core::WaitError first;
  void report(const core::WaitError& error) {
    if (first.status == core::WaitStatus::ok) first = error;
  }
};

enum class KernelKind : std::uint8_t { issue, direct, wait, barrier, other };
[[nodiscard]] const char* name_of(KernelKind kind);

/// Warps that run one body, each at its position. Warps are created by launch().
struct Kernel {
  KernelKind kind = KernelKind::other;
  std::uint32_t blocks = 1, warps_per_block = 1;
  WarpBody body;

  RequestArena requests;
  std::deque<Warp> warps;    ///< stable addresses
  std::uint32_t live = 0;    ///< warps that have not ended
  Rank owner;                ///< whose launch it is
  core::IssueCounts counts;  ///< posted and rung so far
  bool expires = false;      ///< the executor has set a timer for its waits
  FirstError errors;
};

/// One process, all ranks. The calls that block are made from a rank's own main.
class Executor {
 public:
  virtual ~Executor() = default;
  [[nodiscard]] virtual const core::Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const core::RankGrid& grid() const = 0;
  [[nodiscard]] virtual Memory& memory() = 0;
  [[nodiscard]] virtual core::Defects defects() const { return {}; }
  /// `rank` stores into its own segment, beside the fabric. Others see it when it is visible, at
  /// the latest after the rank's next barrier.
  virtual void store(Rank rank, std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual Nanos now() const = 0;
  /// Says what QPs look like, before any is used. Errors: invalid_argument when ranks disagree.
  [[nodiscard]] virtual Result<void> open_queues(Rank rank, const core::QueueShape& queues) = 0;
  /// Starts the kernel's warps for `rank`; returns at once.
  virtual void launch(Rank rank, std::shared_ptr<Kernel> kernel) = 0;
  /// Blocks `rank`'s main until the kernel has ended. Errors: timed_out, deadlock, peer_lost.
  [[nodiscard]] virtual Result<void> join(Rank rank, Kernel& kernel, Nanos limit) = 0;
  /// Blocks until every rank has come (window creation; outside the fabric). Errors: deadlock.
  [[nodiscard]] virtual Result<void> meet(Rank rank) = 0;
};

}  // namespace engram::host
