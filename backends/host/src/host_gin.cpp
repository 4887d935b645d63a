#include "engram/host/host_gin.hpp"

namespace engram::host {
namespace {

constexpr std::uint64_t kTag = std::uint64_t{1} << 63;  // keeps a packed pointer from being null
constexpr int kRankShift = PackedPointer::kOffsetBits + 1;

}  // namespace

std::byte* PackedPointer::pack(Rank rank, Window window, std::uint64_t offset) {
  const std::uint64_t packed = kTag | std::uint64_t{rank.value} << kRankShift |
                               static_cast<std::uint64_t>(window) << kOffsetBits | offset;
  return reinterpret_cast<std::byte*>(packed);
}

void PackedPointer::unpack(const std::byte* pointer, Rank& rank, Window& window,
                           std::uint64_t& offset) {
  const auto packed = reinterpret_cast<std::uint64_t>(pointer);
  require((packed & kTag) != 0, "a pointer that the context gave out");
  rank = Rank{static_cast<std::uint32_t>((packed & ~kTag) >> kRankShift)};
  window = static_cast<Window>(packed >> kOffsetBits & 1);
  offset = packed & ((std::uint64_t{1} << kOffsetBits) - 1);
}

Op HostGin::op(OpKind kind, core::Team team, std::uint32_t peer) const {
  Op op;
  op.kind = kind;
  op.qp = qp_;
  op.peer = warp_->grid().rank_of(team, warp_->rank(), Peer{peer});
  return op;
}

void HostGin::get(core::Team team, std::uint32_t peer, Window src, std::uint64_t src_offset,
                  Window dst, std::uint64_t dst_offset, std::uint32_t bytes,
                  core::Ring ring) const {
  Op get = op(OpKind::get, team, peer);
  get.src_window = src;
  get.src_offset = src_offset;
  get.dst_window = dst;
  get.dst_offset = dst_offset;
  get.bytes = bytes;
  get.ring = ring;
  warp_->record(get);
}

void HostGin::put(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                  Window src, std::uint64_t src_offset, std::uint32_t bytes,
                  core::Ring ring) const {
  Op put = op(OpKind::put, team, peer);
  put.src_window = src;
  put.src_offset = src_offset;
  put.dst_window = dst;
  put.dst_offset = dst_offset;
  put.bytes = bytes;
  put.ring = ring;
  warp_->record(put);
}

void HostGin::put_value(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                        std::uint64_t value, core::Ring ring) const {
  Op put = op(OpKind::put_value, team, peer);
  put.dst_window = dst;
  put.dst_offset = dst_offset;
  put.bytes = 8;
  put.value = value;
  put.ring = ring;
  warp_->record(put);
}

void HostGin::remote_add(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                         std::uint64_t value, core::Ring ring) const {
  Op add = op(OpKind::remote_add, team, peer);
  add.dst_window = dst;
  add.dst_offset = dst_offset;
  add.bytes = 8;
  add.value = value;
  add.ring = ring;
  warp_->record(add);
}

void HostGin::signal(core::Team team, std::uint32_t peer, core::SignalId signal,
                     std::uint64_t add) const {
  Op signalled = op(OpKind::signal, team, peer);
  signalled.signal = signal.value;
  signalled.value = add;
  signalled.bytes = 8;
  signalled.ring = core::Ring::now;
  warp_->record(signalled);
}

std::uint64_t HostGin::read_signal(core::SignalId signal) const {
  Op read;
  read.kind = OpKind::read_signal;
  read.signal = signal.value;
  (void)warp_->stop(read);
  return warp_->answered_value();
}

core::WaitStatus HostGin::wait_signal(core::SignalId signal, std::uint64_t at_least,
                                      core::Deadline deadline) const {
  Op wait;
  wait.kind = OpKind::wait_signal;
  wait.signal = signal.value;
  wait.value = at_least;
  wait.deadline = deadline.ticks;
  return warp_->stop(wait);
}

Request HostGin::flush_async(core::Team team, std::uint32_t peer) const {
  Op flush = op(OpKind::flush_async, team, peer);
  flush.slot = warp_->new_request();
  warp_->record(flush);
  return Request{flush.slot};
}

core::WaitStatus HostGin::wait(Request& request, core::Deadline deadline) const {
  Op wait;
  wait.kind = OpKind::wait_request;
  wait.qp = qp_;
  wait.slot = request.slot;
  wait.deadline = deadline.ticks;
  return warp_->stop(wait);
}

core::WaitStatus HostGin::flush(core::Deadline deadline) const {
  Op flush;
  flush.kind = OpKind::wait_flush;
  flush.qp = qp_;
  flush.deadline = deadline.ticks;
  return warp_->stop(flush);
}

std::byte* HostGin::peer_pointer(core::Team team, std::uint32_t peer, Window window,
                                 std::uint64_t offset) const {
  const Rank rank = warp_->grid().rank_of(team, warp_->rank(), Peer{peer});
  const bool reachable = rank == warp_->rank() ||
                         (warp_->direct_paths() && warp_->grid().same_domain(rank, warp_->rank()));
  return reachable ? PackedPointer::pack(rank, window, offset) : nullptr;
}

std::byte* HostGin::local_pointer(Window window, std::uint64_t offset) const {
  return PackedPointer::pack(warp_->rank(), window, offset);
}

void HostWarp::copy(std::byte* dst, const std::byte* src, std::uint64_t bytes) {
  require(src != nullptr, "rows are copied only along paths that have a pointer");
  Op copy;
  copy.kind = OpKind::copy;
  Rank own;
  PackedPointer::unpack(dst, own, copy.dst_window, copy.dst_offset);
  PackedPointer::unpack(src, copy.peer, copy.src_window, copy.src_offset);
  copy.bytes = static_cast<std::uint32_t>(bytes);
  warp_->record(copy);
}

void HostWarp::zero(std::byte* dst, std::uint64_t bytes) {
  Op zero;
  zero.kind = OpKind::zero;
  PackedPointer::unpack(dst, zero.peer, zero.dst_window, zero.dst_offset);
  zero.bytes = static_cast<std::uint32_t>(bytes);
  warp_->record(zero);
}

void HostWarp::fence() {
  // A warp's operations happen in order, and an answer comes after all before it: ask for any.
  (void)load_word(
      reinterpret_cast<std::int32_t*>(PackedPointer::pack(warp_->rank(), Window::buffer, 0)));
}

void HostWarp::add_release(std::int32_t* word, std::int32_t add) {
  Op op;
  op.kind = OpKind::add_word;
  PackedPointer::unpack(reinterpret_cast<std::byte*>(word), op.peer, op.dst_window, op.dst_offset);
  op.value = static_cast<std::uint64_t>(std::int64_t{add});
  warp_->record(op);
}

std::int32_t HostWarp::load_word(std::int32_t* word) {
  Op op;
  op.kind = OpKind::load_word;
  PackedPointer::unpack(reinterpret_cast<std::byte*>(word), op.peer, op.dst_window, op.dst_offset);
  (void)warp_->stop(op);
  return static_cast<std::int32_t>(warp_->answered_value());
}

core::WaitStatus HostWarp::wait_word(std::int32_t* word, std::int32_t goal,
                                     core::Deadline deadline) {
  Op op;
  op.kind = OpKind::wait_word;
  PackedPointer::unpack(reinterpret_cast<std::byte*>(word), op.peer, op.dst_window, op.dst_offset);
  op.value = static_cast<std::uint64_t>(std::int64_t{goal});
  op.deadline = deadline.ticks;
  return warp_->stop(op);
}

}  // namespace engram::host
