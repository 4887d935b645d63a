// GinContext and WarpGroup on a host: each call becomes an operation of the warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engram/core/gin.hpp"
#include "engram/host/warp.hpp"

namespace engram::host {

/// Pointers that protocols pass around. On a host they are names, not addresses: (rank, window,
/// offset) packed, so that generated storage needs no memory. Only copy, zero and the word
/// operations of HostWarp take them.
struct PackedPointer {
  static constexpr int kOffsetBits = 47;  ///< 128 TiB a window, 32,768 ranks
  static std::byte* pack(Rank rank, Window window, std::uint64_t offset);
  static void unpack(const std::byte* pointer, Rank& rank, Window& window, std::uint64_t& offset);
};

class HostGin {
 public:
  using Window = host::Window;
  using Request = host::Request;

  HostGin(Warp& warp, std::uint32_t qp) : warp_(&warp), qp_(qp) {}

  void get(core::Team team, std::uint32_t peer, Window src, std::uint64_t src_offset, Window dst,
           std::uint64_t dst_offset, std::uint32_t bytes, core::Ring ring) const;
  void put(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset, Window src,
           std::uint64_t src_offset, std::uint32_t bytes, core::Ring ring) const;
  void put_value(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                 std::uint64_t value, core::Ring ring) const;
  void remote_add(core::Team team, std::uint32_t peer, Window dst, std::uint64_t dst_offset,
                  std::uint64_t value, core::Ring ring) const;
  void signal(core::Team team, std::uint32_t peer, core::SignalId signal, std::uint64_t add) const;
  [[nodiscard]] std::uint64_t read_signal(core::SignalId signal) const;
  [[nodiscard]] core::WaitStatus wait_signal(core::SignalId signal, std::uint64_t at_least,
                                             core::Deadline deadline) const;
  [[nodiscard]] Request flush_async(core::Team team, std::uint32_t peer) const;
  [[nodiscard]] core::WaitStatus wait(Request& request, core::Deadline deadline) const;
  [[nodiscard]] core::WaitStatus flush(core::Deadline deadline) const;
  [[nodiscard]] std::byte* peer_pointer(core::Team team, std::uint32_t peer, Window window,
                                        std::uint64_t offset) const;
  [[nodiscard]] std::byte* local_pointer(Window window, std::uint64_t offset) const;

 private:
  [[nodiscard]] Op op(OpKind kind, core::Team team, std::uint32_t peer) const;
  Warp* warp_;
  std::uint32_t qp_;
};
static_assert(core::GinContext<HostGin>);

/// One fiber plays all 32 lanes, in order.
class HostWarp {
 public:
  explicit HostWarp(Warp& warp) : warp_(&warp) {}

  template <class Body>
  void for_lanes(std::uint32_t count, Body&& body) {
    for (std::uint32_t lane = 0; lane < count; ++lane) body(lane);
  }
  template <class Body>
  void once(Body&& body) {
    body();
  }
  template <class Pred>
  [[nodiscard]] std::uint32_t ballot(std::uint32_t count, Pred&& pred) {
    std::uint32_t mask = 0;
    for (std::uint32_t lane = 0; lane < count; ++lane) {
      mask |= static_cast<std::uint32_t>(pred(lane)) << lane;
    }
    return mask;
  }
  [[nodiscard]] std::uint64_t* scratch() { return warp_->scratch(); }
  void copy(std::byte* dst, const std::byte* src, std::uint64_t bytes);
  void zero(std::byte* dst, std::uint64_t bytes);
  void copy_fresh(std::byte* dst, const std::byte* src, std::uint64_t bytes) {
    copy(dst, src, bytes);
  }
  void copy_word(std::byte* dst, const std::byte* src) { copy(dst, src, sizeof(std::uint64_t)); }
  void fence();
  void add_release(std::int32_t* word, std::int32_t add);
  [[nodiscard]] std::int32_t load_word(std::int32_t* word);
  [[nodiscard]] core::WaitStatus wait_word(std::int32_t* word, std::int32_t goal,
                                           core::Deadline deadline);

 private:
  Warp* warp_;
};
static_assert(core::WarpGroup<HostWarp>);

}  // namespace engram::host
