// What a request does to memory when it reaches the peer: one place for all host backends.
#pragma once

#include <cstdint>

#include "engram/host/memory.hpp"
#include "engram/host/warp.hpp"

namespace engram::host {

/// What of a request is still needed when it reaches the peer.
struct PeerAccess {
  OpKind kind = OpKind::get;
  Window src_window = Window::storage, dst_window = Window::buffer;
  std::uint32_t bytes = 0, signal = 0;
  Rank rank, peer;  ///< who posted it, whom it reaches
  std::uint64_t src_offset = 0, dst_offset = 0, value = 0;

  [[nodiscard]] static PeerAccess of(Rank rank, const Op& op);
};

/// Moves the bytes of a get, put, put_value or remote_add. A signal is no memory: false.
[[nodiscard]] bool access_peer(Memory& memory, const PeerAccess& access);

}  // namespace engram::host
