// What protocols may ask of a network context and of a warp; the same calls on host and GPU.
//
// A *context* drives one QP a peer (NCCL calls it a GIN context). A backend hands protocols a
// trivially copyable handle that satisfies GinContext; there are no virtual calls on this side.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "engram/core/device.hpp"
#include "engram/core/rank_grid.hpp"

namespace engram::core {

/// `later` leaves the request un-rung (the aggregate flag); `now` rings the doorbell for all of
/// this QP's un-rung requests.
enum class Ring : std::uint8_t { later, now };

/// A wait ends in one of three ways; an error completion is never taken for "not yet".
enum class WaitStatus : std::uint8_t { ok, error, timed_out };

/// A signal: 64-bit word at the receiver, only ever added to. Ids: [0, ranks) barrier, by sender;
/// then 2 for data from the previous and next rank, 2 for their acknowledgements.
struct SignalId {
  std::uint32_t value = 0;
};

/// Time a wait may take, in the backend's own ticks (nanoseconds on hosts, cycles on a GPU).
struct Deadline {
  std::uint64_t ticks = 0;
};

/// One QP a peer. All offsets count from a window's start. A call that needs a queue slot blocks
/// until one is free: back-pressure, never a drop.
template <class G>
concept GinContext = requires(const G gin, Team team, std::uint32_t peer, typename G::Window window,
                              std::uint64_t offset, std::uint32_t bytes, std::uint64_t value,
                              Ring ring, SignalId signal, Deadline deadline,
                              typename G::Request request) {
  typename G::Window;   // small handle of a registered window
  typename G::Request;  // at most 16 bytes, trivially copyable
  // Reads [offset, offset + bytes) of the peer's window into ours. Unordered until flushed.
  { gin.get(team, peer, window, offset, window, offset, bytes, ring) } -> std::same_as<void>;
  // Writes ours into the peer's window.
  { gin.put(team, peer, window, offset, window, offset, bytes, ring) } -> std::same_as<void>;
  // Writes 8 bytes given by value.
  { gin.put_value(team, peer, window, offset, value, ring) } -> std::same_as<void>;
  // Adds to 8 bytes in the peer's window, after all earlier puts of this context to that peer.
  { gin.remote_add(team, peer, window, offset, value, ring) } -> std::same_as<void>;
  // Adds to the peer's signal, after all earlier puts of this context to that peer. Rings.
  { gin.signal(team, peer, signal, value) } -> std::same_as<void>;
  { gin.read_signal(signal) } -> std::same_as<std::uint64_t>;
  { gin.wait_signal(signal, value, deadline) } -> std::same_as<WaitStatus>;
  // A handle for everything this context has posted to `peer`. Whether it rings differs by library
  // version, so protocols never rely on it.
  { gin.flush_async(team, peer) } -> std::same_as<typename G::Request>;
  { gin.wait(request, deadline) } -> std::same_as<WaitStatus>;
  // Waits for everything this context has posted, to all peers.
  { gin.flush(deadline) } -> std::same_as<WaitStatus>;
  // A pointer that loads and stores reach, or null where only the network does.
  { gin.peer_pointer(team, peer, window, offset) } -> std::same_as<std::byte*>;
  { gin.local_pointer(window, offset) } -> std::same_as<std::byte*>;
};

inline constexpr std::uint32_t kWarpLanes = 32;

/// A warp written as data-parallel statements, each converged at its end: one thread a lane on a
/// GPU, one loop on a host.
template <class W>
concept WarpGroup = requires(W warp, std::uint32_t count, std::byte* dst, const std::byte* src,
                             std::uint64_t bytes, std::int32_t add, std::int32_t* word,
                             Deadline deadline, bool (*pred)(std::uint32_t),
                             void (*body)(std::uint32_t), void (*once)()) {
  { warp.for_lanes(count, body) } -> std::same_as<void>;        // body(lane) for lane < count <= 32
  { warp.once(once) } -> std::same_as<void>;                    // by one lane
  { warp.ballot(count, pred) } -> std::same_as<std::uint32_t>;  // bit `lane` = pred(lane)
  { warp.scratch() } -> std::same_as<std::uint64_t*>;           // 2 * 32 words of this warp
  { warp.copy(dst, src, bytes) } -> std::same_as<void>;         // by all lanes; src may be a peer's
  { warp.zero(dst, bytes) } -> std::same_as<void>;
  // As copy, past caches: bytes as they are in memory now. Ordered by fence alone.
  { warp.copy_fresh(dst, src, bytes) } -> std::same_as<void>;
  // The same for 8 bytes, by the calling lane.
  { warp.copy_word(dst, src) } -> std::same_as<void>;
  // What this warp did before it comes before what it does after, for everyone in the domain.
  { warp.fence() } -> std::same_as<void>;
  // A release add of system scope to a word that peers in the NVLink domain read.
  { warp.add_release(word, add) } -> std::same_as<void>;
  { warp.load_word(word) } -> std::same_as<std::int32_t>;
  // Acquires the word until it equals `add`.
  { warp.wait_word(word, add, deadline) } -> std::same_as<WaitStatus>;
};

}  // namespace engram::core
