// What a request does to memory when it reaches the peer: one place for all host backends.
#pragma once

#include <cstdint>

#include "engram/host/memory.hpp"
#include "engram/host/warp.hpp"

namespace engram::host {

/// What of a request is still needed when it reaches the peer. Small: backends keep millions.
struct PeerAccess {
  OpKind kind = OpKind::get;
  Window src_window = Window::storage, dst_window = Window::buffer;
  std::uint32_t bytes = 0;
  std::uint64_t src_or_value = 0;   ///< where bytes come from, or the value itself
  std::uint64_t dst_or_signal = 0;  ///< where they go, or which signal

  [[nodiscard]] static PeerAccess of(const Op& op);
};

/// Moves the bytes of a get, put, put_value or remote_add that `rank` posted to `peer`. A signal is
/// no memory: false.
[[nodiscard]] bool access_peer(Memory& memory, Rank rank, Rank peer, const PeerAccess& access);

}  // namespace engram::host
