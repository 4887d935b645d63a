// What a backend must do for one rank; services and tools talk to nothing below this.
//
// A backend implements it over a GinContext: post() launches the protocol's issue warps, wait() its
// wait warps, barrier() its barrier. The calls are made by one thread (or actor) a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engram/core/fetch_plan.hpp"
#include "engram/core/index.hpp"
#include "engram/core/index_check.hpp"
#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/route.hpp"
#include "engram/core/units.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::core {

struct Capabilities {
  std::string backend;
  PathCapabilities paths;
  FetchLimits limits;
  bool simulated_time = false;      ///< now() is a model's time
  bool deterministic = false;       ///< same seed, same trace
  bool generated_storage = false;   ///< storage may be a function instead of memory
  bool ordered_completions = true;  ///< to one peer on one QP; no protocol here relies on it
};

/// The bytes of one rank's segment as a function: fills `out` with [offset, offset + out.size()).
/// Called for whole rows only.
using SegmentFunction =
    std::function<void(Rank owner, std::uint64_t offset, std::span<std::byte> out)>;

/// A fetch, routed and planned, ready to post.
struct FetchPost {
  Router router;
  FetchPlan plan;
  IndexShape shape;
  std::span<const std::int64_t> indices;    ///< [layers, tokens, entries]; copied by post()
  std::span<const std::uint64_t> dst_base;  ///< [layers], in the buffer window; copied by post()
};

/// The QPs that a communicator opens to each peer; fixed for its life.
struct QueueShape {
  std::uint32_t num_qps = 1;
  std::uint32_t depth = 1024;  ///< requests a QP holds
};

struct Ticket {
  std::uint64_t id = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual const RankGrid& grid() const = 0;
  /// The backend's time: simulated, stepped (loopback) or steady. Core reads no other clock.
  [[nodiscard]] virtual Nanos now() const = 0;

  /// Creates and registers both windows and opens QPs; collective, once. With `segment`, storage is
  /// generated. Errors reach every rank: unsupported, out_of_range, io.
  [[nodiscard]] virtual Result<void> open(const WindowLayout& layout, const QueueShape& queues,
                                          std::optional<SegmentFunction> segment) = 0;
  /// Writes into this rank's own segment. Errors: out_of_range; unsupported on generated storage.
  [[nodiscard]] virtual Result<void> write_segment(Bytes offset,
                                                   std::span<const std::byte> bytes) = 0;
  /// Reads this rank's GPU buffer (offset from the buffer window's start). Errors: out_of_range.
  [[nodiscard]] virtual Result<void> read_buffer(Bytes offset, std::span<std::byte> out) const = 0;

  /// Starts all reads; none need have landed on return. Several tickets may be in flight; the
  /// caller keeps their receive regions apart (LeaseBook).
  /// Errors: out_of_range, naming the first read past a window's end; then none is started.
  [[nodiscard]] virtual Result<Ticket> post(const FetchPost& fetch) = 0;
  /// Returns once all reads of `layer` have landed; layers in any order, each once.
  /// Errors: timed_out after `limit` or peer_lost, naming rank, peer, QP and what is missing.
  [[nodiscard]] virtual Result<void> wait(Ticket ticket, LayerIndex layer, Nanos limit) = 0;
  /// Global: no rank returns before the last has entered; earlier writes are visible to all.
  /// Errors: timed_out, naming a rank that was not seen.
  [[nodiscard]] virtual Result<void> barrier(Nanos limit) = 0;
};

/// What each rank runs. It is called once a rank, in that rank's process, actor or fiber.
using RankMain = std::function<Result<void>(Transport&)>;

}  // namespace engram::core
