#include "engram/host/peer_access.hpp"

#include <span>

namespace engram::host {

PeerAccess PeerAccess::of(Rank rank, const Op& op) {
  return {op.kind, op.src_window, op.dst_window, op.bytes,      op.signal,
          rank,    op.peer,       op.src_offset, op.dst_offset, op.value};
}

bool access_peer(Memory& memory, const PeerAccess& a) {
  switch (a.kind) {
    case OpKind::get:
      memory.read(a.peer, a.src_window, a.src_offset,
                  {memory.at(a.rank, a.dst_window, a.dst_offset), a.bytes});
      return true;
    case OpKind::put:
      memory.read(a.rank, a.src_window, a.src_offset,
                  {memory.at(a.peer, a.dst_window, a.dst_offset), a.bytes});
      return true;
    case OpKind::put_value:
      memory.write(a.peer, a.dst_window, a.dst_offset, std::as_bytes(std::span(&a.value, 1)));
      return true;
    case OpKind::remote_add:
      memory.add(a.peer, a.dst_window, a.dst_offset, a.value);
      return true;
    case OpKind::signal:
      return false;
    default:
      require(false, "only requests reach a peer");
      return false;
  }
}

}  // namespace engram::host
