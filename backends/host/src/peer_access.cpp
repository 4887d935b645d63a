#include "engram/host/peer_access.hpp"

#include <span>

namespace engram::host {

PeerAccess PeerAccess::of(const Op& op) {
  using enum OpKind;
  const bool by_value = op.kind == put_value || op.kind == remote_add || op.kind == signal;
  return {.kind = op.kind,
          .src_window = op.src_window,
          .dst_window = op.dst_window,
          .bytes = op.bytes,
          .src_or_value = by_value ? op.value : op.src_offset,
          .dst_or_signal = op.kind == signal ? op.signal : op.dst_offset};
}

bool access_peer(Memory& memory, Rank rank, Rank peer, const PeerAccess& a) {
  switch (a.kind) {
    case OpKind::get:
      memory.read(peer, a.src_window, a.src_or_value,
                  {memory.at(rank, a.dst_window, a.dst_or_signal), a.bytes});
      return true;
    case OpKind::put:
      memory.read(rank, a.src_window, a.src_or_value,
                  {memory.at(peer, a.dst_window, a.dst_or_signal), a.bytes});
      return true;
    case OpKind::put_value:
      memory.write(peer, a.dst_window, a.dst_or_signal,
                   std::as_bytes(std::span(&a.src_or_value, 1)));
      return true;
    case OpKind::remote_add:
      memory.add(peer, a.dst_window, a.dst_or_signal, a.src_or_value);
      return true;
    case OpKind::signal:
      return false;
    default:
      require(false, "only requests reach a peer");
      return false;
  }
}

}  // namespace engram::host
