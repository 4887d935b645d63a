// The plugin as core's protocols see it: a GinContext over a context's ring, and a warp that is one
// thread. What a GPU's kernels do through NCCL's device code, played on plain memory.
#pragma once

#include <array>
#include <cstring>

#include "engram/core/gin.hpp"
#include "harness.hpp"

namespace engram::gin_plugin::testing {

template <class Done>
core::WaitStatus within(core::Deadline deadline, const Done& done) {
  const auto limit = std::chrono::nanoseconds(deadline.ticks);
  return eventually(done, std::chrono::ceil<std::chrono::milliseconds>(limit))
             ? core::WaitStatus::ok
             : core::WaitStatus::timed_out;
}

/// Every window lies in the member's one region, from `Window::base` on. Several threads may share
/// a context. Deadlines are nanoseconds.
class PluginGin {
 public:
  struct Window {
    std::uint64_t base = 0;
  };
  struct Request {
    std::uint32_t peer = 0;
    std::uint64_t ticket = 0;
  };

  PluginGin(const Member& member, std::uint32_t context)
      : gpu_(member.gpu(context)),
        memory_(member.memory.get()),
        region_(member.id()),
        num_ranks_(member.num_ranks) {}

  void get(core::Team, std::uint32_t peer, Window src, std::uint64_t src_offset, Window dst,
           std::uint64_t dst_offset, std::uint32_t bytes, core::Ring) const {
    gpu_.post(data(OpCode::read, peer, src.base + src_offset, dst.base + dst_offset, bytes));
  }
  void put(core::Team, std::uint32_t peer, Window dst, std::uint64_t dst_offset, Window src,
           std::uint64_t src_offset, std::uint32_t bytes, core::Ring) const {
    gpu_.post(data(OpCode::write, peer, dst.base + dst_offset, src.base + src_offset, bytes));
  }
  void put_value(core::Team, std::uint32_t peer, Window dst, std::uint64_t offset,
                 std::uint64_t value, core::Ring) const {
    gpu_.post(word(OpCode::write_inline, peer, dst.base + offset, value));
  }
  void remote_add(core::Team, std::uint32_t peer, Window dst, std::uint64_t offset,
                  std::uint64_t value, core::Ring) const {
    gpu_.post(word(OpCode::atomic_add, peer, dst.base + offset, value));
  }
  void signal(core::Team, std::uint32_t peer, core::SignalId id, std::uint64_t value) const {
    Operation op;
    op.code = OpCode::write_signal_add;
    op.peer = peer;
    op.signal = static_cast<std::uint16_t>(id.value);
    op.signal_value = value;
    gpu_.post(op);
  }
  [[nodiscard]] std::uint64_t read_signal(core::SignalId id) const { return gpu_.signal(id.value); }
  [[nodiscard]] core::WaitStatus wait_signal(core::SignalId id, std::uint64_t least,
                                             core::Deadline deadline) const {
    return within(deadline, [&] { return gpu_.signal(id.value) >= least; });
  }
  [[nodiscard]] Request flush_async(core::Team, std::uint32_t peer) const {
    return {peer, gpu_.flush(peer)};
  }
  [[nodiscard]] core::WaitStatus wait(Request request, core::Deadline deadline) const {
    return within(deadline, [&] { return gpu_.flushed(request.peer) >= request.ticket; });
  }
  [[nodiscard]] core::WaitStatus flush(core::Deadline deadline) const {
    auto status = core::WaitStatus::ok;
    for (std::uint32_t r = 0; r < num_ranks_ && status == core::WaitStatus::ok; ++r) {
      status = wait(flush_async(core::Team::world, r), deadline);
    }
    return status;
  }
  [[nodiscard]] std::byte* peer_pointer(core::Team, std::uint32_t, Window, std::uint64_t) const {
    return nullptr;
  }
  [[nodiscard]] std::byte* local_pointer(Window window, std::uint64_t offset) const {
    return memory_ + window.base + offset;
  }

 private:
  [[nodiscard]] Operation data(OpCode code, std::uint32_t peer, std::uint64_t remote,
                               std::uint64_t local, std::uint32_t bytes) const {
    Operation op;
    op.code = code;
    op.peer = peer;
    op.remote = op.local = region_;
    op.remote_offset = remote;
    op.local_offset = local;
    op.size = bytes;
    return op;
  }
  [[nodiscard]] Operation word(OpCode code, std::uint32_t peer, std::uint64_t remote,
                               std::uint64_t value) const {
    Operation op = data(code, peer, remote, 0, 8);
    op.local = 0;
    op.inline_value = value;
    return op;
  }

  mutable Gpu gpu_;  // posting changes the channel, not the handle
  std::byte* memory_;
  std::uint16_t region_;
  std::uint32_t num_ranks_;
};
static_assert(core::GinContext<PluginGin>);

/// A warp whose lanes take turns on one thread.
class OneThreadWarp {
 public:
  template <class Body>
  void for_lanes(std::uint32_t count, const Body& body) {
    for (std::uint32_t lane = 0; lane < count; ++lane) body(lane);
  }
  template <class Body>
  void once(const Body& body) {
    body();
  }
  template <class Pred>
  [[nodiscard]] std::uint32_t ballot(std::uint32_t count, const Pred& pred) {
    std::uint32_t votes = 0;
    for (std::uint32_t lane = 0; lane < count; ++lane) votes |= std::uint32_t{pred(lane)} << lane;
    return votes;
  }
  [[nodiscard]] std::uint64_t* scratch() { return scratch_.data(); }
  void copy(std::byte* dst, const std::byte* src, std::uint64_t bytes) {
    std::memcpy(dst, src, bytes);
  }
  void copy_fresh(std::byte* dst, const std::byte* src, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) dst[i] = src[i];
  }
  void copy_word(std::byte* dst, const std::byte* src) {
    *reinterpret_cast<std::uint64_t*>(dst) = *reinterpret_cast<const volatile std::uint64_t*>(src);
  }
  void zero(std::byte* dst, std::uint64_t bytes) { std::memset(dst, 0, bytes); }
  void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  void add_release(std::int32_t* word, std::int32_t add) {
    std::atomic_ref(*word).fetch_add(add, std::memory_order_release);
  }
  [[nodiscard]] std::int32_t load_word(std::int32_t* word) {
    return std::atomic_ref(*word).load(std::memory_order_relaxed);
  }
  [[nodiscard]] core::WaitStatus wait_word(std::int32_t* word, std::int32_t goal,
                                           core::Deadline deadline) {
    return within(deadline, [&] { return std::atomic_ref(*word).load() == goal; });
  }

 private:
  std::array<std::uint64_t, std::size_t{2} * core::kWarpLanes> scratch_{};
};
static_assert(core::WarpGroup<OneThreadWarp>);

}  // namespace engram::gin_plugin::testing
