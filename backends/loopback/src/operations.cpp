// What a warp's operations do.
#include <algorithm>
#include <cstring>

#include "scheduler.hpp"

namespace engram::loopback {

void Scheduler::step_warp(std::uint32_t index) {
  RunningWarp& running = warps_[index];
  const host::Op* op = running.warp->head();
  if (op == nullptr) return end_warp(running);
  if (carry_out(index, running, *op)) {
    running.warp->pop();
  } else {
    block(running, *op);
  }
}

void Scheduler::end_warp(RunningWarp& running) {
  code_.set(running.actor, false);
  running.warp = nullptr;
  const std::shared_ptr<host::Kernel> kernel = std::move(running.kernel);
  if (--kernel->live > 0) return;
  for (Program& program : programs_) {
    if (!program.ended && program.joins == kernel.get()) code_.set(program.actor, true);
  }
}

void Scheduler::block(RunningWarp& running, const host::Op& op) {
  code_.set(running.actor, false);
  // A wait keeps its first deadline when it is woken in vain.
  if (!running.blocked) {
    const bool endless = !host::stops(op.kind) || op.deadline > ~std::uint64_t{0} - now_;
    running.deadline = endless ? ~std::uint64_t{0} : now_ + op.deadline;
  }
  running.blocked = true;
}

void Scheduler::wake(std::vector<std::uint32_t>& waiters) {
  for (const std::uint32_t index : waiters) {
    RunningWarp& running = warps_[index];
    if (running.blocked) code_.set(running.actor, true);
  }
  waiters.clear();
}

void Scheduler::answer(RunningWarp& running, core::WaitStatus status, std::uint64_t value) {
  running.blocked = false;
  running.warp->answer(status, value);
  running.warp->pop();
  code_.set(running.actor, true);
}

bool Scheduler::has_completed(const Queue& queue, std::uint64_t target) const {
  if (core::kDefectsBuilt && options_.defects.counter_wraps) {
    return static_cast<std::uint32_t>(queue.completed) >= static_cast<std::uint32_t>(target);
  }
  return queue.completed >= target;
}

core::WaitStatus Scheduler::status_of(const Queue& queue, std::uint64_t target) const {
  return queue.failed_at && *queue.failed_at < target ? core::WaitStatus::error
                                                      : core::WaitStatus::ok;
}

/// True once the operation is done; false leaves the warp blocked on it, registered as a waiter.
bool Scheduler::carry_out(std::uint32_t index, RunningWarp& running, const host::Op& op) {
  using enum host::OpKind;
  host::Warp& warp = *running.warp;
  RankState& rank = ranks_[warp.rank().value];
  const auto ends = [&](core::WaitStatus status, std::uint64_t value) {
    running.blocked = false;
    warp.answer(status, value);
    return true;
  };
  switch (op.kind) {
    case get:
    case put:
    case put_value:
    case remote_add:
    case signal:
      return post(index, running, op);
    case flush_async: {
      op.slot->queue = open_queue(warp.rank(), op.qp, op.peer);
      Queue& queue = queues_[op.slot->queue];
      op.slot->target = queue.posted;
      if (options_.flush_rings) ring(queue);
      return true;
    }
    case copy:
      memory_.read(op.peer, op.src_window, op.src_offset,
                   {memory_.at(warp.rank(), op.dst_window, op.dst_offset), op.bytes});
      note("copy", warp.rank().value, op.peer.value, op.dst_offset);
      return true;
    case zero:
      if (op.bytes > 0) std::memset(memory_.at(op.peer, op.dst_window, op.dst_offset), 0, op.bytes);
      return true;
    case add_word: {
      RankState& target = ranks_[op.peer.value];
      target.pending_adds.push_back(
          {op.dst_offset, static_cast<std::int32_t>(static_cast<std::int64_t>(op.value))});
      fabric_.set(target.words_actor, true);
      return true;
    }
    case wait_request: {
      Queue& queue = queues_[op.slot->queue];
      if (has_completed(queue, op.slot->target)) {
        return ends(status_of(queue, op.slot->target), queue.completed);
      }
      queue.done_waiters.push_back(index);
      return false;
    }
    case wait_flush: {
      core::WaitStatus status = core::WaitStatus::ok;
      const std::uint32_t num_ranks = options_.grid.num_ranks();
      for (std::uint32_t peer = 0; peer < num_ranks; ++peer) {
        const std::size_t at = std::size_t{op.qp} * num_ranks + peer;
        if (at >= rank.queues.size() || rank.queues[at] == 0) continue;
        Queue& queue = queues_[rank.queues[at] - 1];
        if (options_.flush_rings) ring(queue);
        if (queue.completed < queue.posted) {
          queue.done_waiters.push_back(index);
          return false;
        }
        if (queue.failed_at) status = core::WaitStatus::error;
      }
      return ends(status, 0);
    }
    case wait_signal:
      if (rank.signals[op.signal] >= op.value) {
        return ends(core::WaitStatus::ok, rank.signals[op.signal]);
      }
      rank.signal_waiters.push_back(index);
      return false;
    case read_signal:
      return ends(core::WaitStatus::ok, rank.signals[op.signal]);
    case load_word:
      return ends(core::WaitStatus::ok,
                  static_cast<std::uint64_t>(std::int64_t{word(op.peer, op.dst_offset)}));
    case wait_word:
      if (std::int64_t{word(op.peer, op.dst_offset)} == static_cast<std::int64_t>(op.value)) {
        return ends(core::WaitStatus::ok, op.value);
      }
      rank.word_waiters.push_back(index);
      return false;
  }
  return true;
}

bool Scheduler::post(std::uint32_t index, RunningWarp& running, const host::Op& op) {
  const Rank rank = running.warp->rank();
  Queue& queue = queues_[open_queue(rank, op.qp, op.peer)];
  if (queue.full()) {
    if (!(core::kDefectsBuilt && options_.defects.no_back_pressure)) {
      queue.slot_waiters.push_back(index);
      return false;
    }
    // The new request takes the slot of one that was never read: that one is lost.
    const auto lost = std::ranges::find_if(queue.slots, [](const Slot& s) { return !s.started; });
    if (lost != queue.slots.end()) {
      lost->op = op;
      if (op.ring == core::Ring::now) ring(queue);
      ++stats_.requests;
      running.blocked = false;
      return true;
    }
  }
  running.blocked = false;
  queue.slots.push_back({op});
  ++queue.posted;
  ++stats_.requests;
  const std::uint64_t queued = queue.posted - queue.completed;
  stats_.max_queued = std::max(stats_.max_queued, queued);
  if (queued > queue.depth) {
    violate(fmt::format("rank {}, QP {} to rank {}: {} un-rung and outstanding, depth {}",
                        rank.value, queue.qp, queue.peer.value, queued, queue.depth));
  }
  note("post", rank.value, queue.actor.index, queue.posted);
  if (op.ring == core::Ring::now) ring(queue);
  return true;
}

}  // namespace engram::loopback
