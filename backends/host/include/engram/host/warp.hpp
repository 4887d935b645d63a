// A protocol warp on a host: its code runs ahead and leaves a list of operations; the backend
// carries them out, each at the moment its scheduler or its clock says.
//
// Operations without a result are only recorded, so a warp of a few gets and a flush runs through
// in one go and needs no stack of its own afterwards; the code stops where it must know an answer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engram/core/gin.hpp"
#include "engram/core/wait_error.hpp"
#include "engram/host/fiber.hpp"
#include "engram/host/memory.hpp"

namespace engram::host {

enum class OpKind : std::uint8_t {
  get,
  put,
  put_value,
  remote_add,
  signal,
  flush_async,  ///< resolves `*slot`
  copy,         ///< by loads: bytes [src_*] of `peer_rank` to our [dst_offset]
  zero,
  add_word,      ///< system-scope add to a word in `peer_rank`'s buffer window
  wait_request,  ///< from here on the warp stops for an answer
  wait_flush,
  wait_signal,
  read_signal,
  wait_word,
  load_word,
};
[[nodiscard]] constexpr bool stops(OpKind kind) { return kind >= OpKind::wait_request; }

/// Everything a context had posted to one peer, once the backend has carried out the flush.
struct RequestSlot {
  static constexpr std::uint32_t kNoQueue = 0xffffffff;
  std::uint32_t queue = kNoQueue;  ///< the backend's number of the QP
  std::uint64_t target = 0;        ///< requests posted to it
};
/// What protocols hold: the name of a slot, given before the flush is carried out.
struct Request {
  RequestSlot* slot = nullptr;
};
using RequestArena = std::deque<RequestSlot>;  // grows without moving its slots

struct Op {
  OpKind kind = OpKind::get;
  core::Ring ring = core::Ring::later;
  Window src_window = Window::storage, dst_window = Window::buffer;
  std::uint32_t qp = 0;  ///< context index
  Rank peer;             ///< the far end, in the world
  std::uint32_t bytes = 0;
  std::uint64_t src_offset = 0, dst_offset = 0;
  std::uint64_t value = 0;  ///< to put or add, or the goal of a wait
  std::uint32_t signal = 0;
  std::uint64_t deadline = 0;  ///< ticks (nanoseconds) from when the wait starts
  RequestSlot* slot = nullptr;
};

/// Where a warp stands in its kernel.
struct WarpPosition {
  std::uint32_t block = 0, warp = 0;  ///< warp within the block
};

class Warp;
using WarpBody = std::function<void(Warp&)>;

class Warp {
 public:
  Warp(Rank rank, const core::RankGrid& grid, const Memory& memory, bool direct_paths,
       WarpPosition position, const WarpBody& body, RequestArena& requests)
      : rank_(rank),
        grid_(&grid),
        memory_(&memory),
        direct_paths_(direct_paths),
        position_(position),
        body_(&body),
        requests_(&requests) {}

  /// The operation at the head, running the code ahead where none is left; null once all is done.
  [[nodiscard]] Op* head();
  /// The head is carried out; for one that stops, answer() came first.
  void pop();
  void answer(core::WaitStatus status, std::uint64_t value = 0) {
    status_ = status, value_ = value;
  }

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] WarpPosition position() const { return position_; }

  // For the code on the warp (HostGin and HostWarp call these).
  void record(const Op& op);
  [[nodiscard]] core::WaitStatus stop(const Op& op);
  [[nodiscard]] std::uint64_t answered_value() const { return value_; }
  [[nodiscard]] RequestSlot* new_request() { return &requests_->emplace_back(); }
  [[nodiscard]] std::uint64_t* scratch() { return scratch_; }
  [[nodiscard]] const core::RankGrid& grid() const { return *grid_; }
  [[nodiscard]] const Memory& memory() const { return *memory_; }
  [[nodiscard]] bool direct_paths() const { return direct_paths_; }

 private:
  static constexpr std::size_t kAhead = 256;  ///< operations recorded before the code must stop
  Rank rank_;
  const core::RankGrid* grid_;
  const Memory* memory_;
  bool direct_paths_;
  WarpPosition position_;
  const WarpBody* body_;
  RequestArena* requests_;
  std::unique_ptr<Fiber> fiber_;
  bool started_ = false, ended_ = false, waiting_ = false;
  std::vector<Op> ops_;
  std::size_t next_ = 0;
  core::WaitStatus status_ = core::WaitStatus::ok;
  std::uint64_t value_ = 0;
  std::uint64_t scratch_[2 * core::kWarpLanes] = {};
};

}  // namespace engram::host
