// What QPs and late stores do on their own.
#include <algorithm>
#include <array>

#include "engram/host/peer_access.hpp"
#include "scheduler.hpp"

namespace engram::loopback {
namespace {

bool is_read(const Slot& slot) { return slot.op.kind == host::OpKind::get; }
/// Ordered after everything the context posted to that peer before.
bool is_ordered(const Slot& slot) {
  return slot.op.kind == host::OpKind::signal || slot.op.kind == host::OpKind::remote_add;
}

}  // namespace

std::uint32_t Scheduler::open_queue(Rank rank, std::uint32_t qp, Rank peer) {
  auto& table = ranks_[rank.value].queues;
  const std::size_t at = std::size_t{qp} * options_.grid.num_ranks() + peer.value;
  if (at >= table.size()) table.resize(at + options_.grid.num_ranks());
  if (table[at] == 0) {
    Queue& queue = queues_.emplace_back();
    queue.rank = rank;
    queue.peer = peer;
    queue.qp = qp;
    queue.depth = queue_shape_ ? queue_shape_->depth : core::QueueShape{}.depth;
    queue.posted = queue.rung = queue.started = queue.completed = options_.first_count;
    queue.actor = {Actor::Kind::queue, static_cast<std::uint32_t>(queues_.size() - 1), -1};
    table[at] = static_cast<std::uint32_t>(queues_.size());
  }
  return table[at] - 1;
}

void Scheduler::ring(Queue& queue) {
  if (queue.rung == queue.posted) return;
  queue.rung = queue.posted;
  ++stats_.doorbells;
  note("ring", queue.rank.value, queue.actor.index, queue.rung);
  refresh(queue);
}

bool Scheduler::can_start(const Queue& queue) const {
  if (queue.started == queue.rung || options_.dead_rank == queue.peer) return false;
  const Slot& next = queue.slots[queue.started - queue.completed];
  return !is_read(next) || queue.started - queue.completed < options_.reads_in_flight;
}

bool Scheduler::can_deliver(const Queue& queue, std::uint64_t number) const {
  const Slot& slot = queue.slots[number - queue.completed];
  if (!slot.started || slot.delivered) return false;
  if (!is_ordered(slot)) return true;
  for (std::uint64_t n = queue.completed; n < number; ++n) {
    if (!queue.slots[n - queue.completed].delivered) return false;
  }
  return true;
}

void Scheduler::refresh(Queue& queue) {
  // Started requests can always go on (the oldest one is deliverable or delivered).
  fabric_.set(queue.actor, queue.started > queue.completed || can_start(queue));
}

void Scheduler::step_queue(Queue& queue) {
  // Choices: start the next, deliver any that is under way, complete the oldest.
  constexpr std::uint64_t kStart = ~std::uint64_t{0}, kComplete = kStart - 1;
  std::array<std::uint64_t, 34> choices{};
  std::size_t count = 0;
  if (can_start(queue)) choices[count++] = kStart;
  if (queue.started > queue.completed && queue.slots.front().delivered) {
    choices[count++] = kComplete;
  }
  for (std::uint64_t n = queue.completed; n < queue.started && count < choices.size(); ++n) {
    if (can_deliver(queue, n)) choices[count++] = n;
  }
  require(count > 0, "a ready queue has something to do");
  const std::uint64_t choice = choices[random_.below(count)];
  if (choice == kStart) {
    queue.slot(queue.started).started = true;
    ++queue.started;
    note("start", queue.rank.value, queue.actor.index, queue.started);
    std::uint64_t reads = 0;
    for (std::uint64_t n = queue.completed; n < queue.started; ++n) reads += is_read(queue.slot(n));
    stats_.max_reads_in_flight = std::max(stats_.max_reads_in_flight, reads);
    if (reads > options_.reads_in_flight) {
      violate(fmt::format("rank {}, QP {}: {} reads in flight, limit {}", queue.rank.value,
                          queue.qp, reads, options_.reads_in_flight));
    }
  } else if (choice == kComplete) {
    complete(queue);
  } else {
    deliver(queue, queue.slot(choice));
    note("deliver", queue.rank.value, queue.actor.index, choice);
  }
  refresh(queue);
}

void Scheduler::deliver(Queue& queue, Slot& slot) {
  slot.delivered = true;
  if (options_.failing_request == deliveries_++) {
    slot.failed = true;
    stats_.faults.push_back(fmt::format("error completion: rank {}, QP {}, peer {}",
                                        queue.rank.value, queue.qp, queue.peer.value));
    return;
  }
  const host::Op& op = slot.op;
  if (host::access_peer(memory_, queue.rank, queue.peer, host::PeerAccess::of(op))) return;
  ranks_[queue.peer.value].signals[op.signal] += op.value;
  wake(ranks_[queue.peer.value].signal_waiters);
}

void Scheduler::complete(Queue& queue) {
  if (queue.slots.front().failed && !queue.failed_at) queue.failed_at = queue.completed;
  queue.slots.pop_front();
  // The completion names its request by 16 bits: the one after the last.
  queue.complete_to(static_cast<std::uint16_t>(queue.completed + 1));
  ++stats_.completions;
  note("complete", queue.rank.value, queue.actor.index, queue.completed);
  wake(queue.slot_waiters);
  wake(queue.done_waiters);
}

std::int32_t& Scheduler::word(Rank rank, std::uint64_t offset) const {
  return *reinterpret_cast<std::int32_t*>(memory_.at(rank, host::Window::buffer, offset));
}

void Scheduler::step_words(std::uint32_t rank) {
  RankState& state = ranks_[rank];
  const std::size_t i = random_.below(state.pending_adds.size());
  const PendingAdd add = state.pending_adds[i];
  state.pending_adds[i] = state.pending_adds.back();
  state.pending_adds.pop_back();
  word(Rank{rank}, add.offset) += add.add;
  note("word", rank, 0, add.offset);
  wake(state.word_waiters);
  fabric_.set(state.words_actor, !state.pending_adds.empty());
}

}  // namespace engram::loopback
