// How a Worker takes operations in: checks, copies, and what is to follow them.
#include <algorithm>

#include "wire.hpp"
#include "worker.hpp"

namespace engram::gin_plugin {

void Worker::append(ContextState& context, const Copy& copy) {
  // Rare: an operation over more segments than room() keeps free.
  while (!ensure_open() || count_ == open_.size()) {
    if (count_ > 0) submit();
    poll_engine();
    if (shared_.failed) return;
  }
  open_[count_++] = copy;
  open_bytes_ += copy.size;
  const std::uint64_t number = submitted_ + 1;
  // RMA's requests that wait for the open batch may as well wait for one copy more of it.
  const auto& line = context.pending;
  const Pending* last = line.empty() ? nullptr : &line.back();
  if (last != nullptr && last->kind == Pending::Kind::requests && line.size() > 1) {
    last = &line[line.size() - 2];
  }
  if (last != nullptr && last->kind == Pending::Kind::batch && last->number == number) return;
  Pending pending;
  pending.kind = Pending::Kind::batch;
  pending.number = number;
  context.pending.push_back(std::move(pending));
}

bool Worker::take_descriptors(ContextState& context) {
  constexpr unsigned kAtATime = 256;  // then the other contexts have their turn
  DescriptorWords words;
  unsigned taken = 0;
  while (taken < kAtATime) {
    // After a failure descriptors are read without a slot: nothing is copied any more.
    const bool can_copy = ensure_open() && room() && count_ < engine_->preferred();
    if (!can_copy && !shared_.failed.load(std::memory_order_relaxed)) break;
    if (!context.ring.next(words)) break;
    ++taken;
    auto op = decode(words);
    if (op) {
      take(context, *op);
    } else {
      shared_.fail(op.error());
    }
  }
  flush_remote_if_due(context);
  if (taken == 0) return false;
  std::atomic_ref(context.consumed->value)
      .store(context.ring.consumed(), std::memory_order_release);
  return true;
}

bool Worker::take_requests(ContextState& context) {
  RmaOperation rma;
  bool any = false;
  while ((ensure_open() && room()) || shared_.failed.load(std::memory_order_relaxed)) {
    const std::uint64_t number = context.queue->pop(rma);
    if (number == 0) break;
    take_rma(context, rma, number);
    any = true;
  }
  flush_remote_if_due(context);
  return any;
}

void Worker::refuse(const ContextState& context, const Operation& op, Error error) {
  shared_.fail(Error{error.code, fmt::format("rank {}, context {}, operation {} to peer {}: {}",
                                             shared_.self.value, context.index,
                                             static_cast<int>(op.code), op.peer, error.message)});
}

void Worker::take(ContextState& context, const Operation& op) {
  auto later = [&](Pending::Kind kind, std::uint32_t index) -> Pending& {
    Pending& pending = context.pending.emplace_back();
    pending.kind = kind;
    pending.peer = op.peer;
    pending.index = index;
    return pending;
  };
  const bool counts =
      op.counted() || op.code == OpCode::counter_reset || op.code == OpCode::counter_reset_quiet;
  if (counts && op.counter >= context.counts.size()) {
    return refuse(context, op,
                  {ErrorCode::out_of_range,
                   fmt::format("counter {} of {}", op.counter, context.counts.size())});
  }
  if (op.code == OpCode::counter_reset || op.code == OpCode::counter_reset_quiet) {
    later(Pending::Kind::reset_counter, op.counter);
    return;
  }
  if (op.code == OpCode::counter_writeback || op.code == OpCode::signal_reset) return;
  if (op.peer >= shared_.num_ranks) {
    return refuse(
        context, op,
        {ErrorCode::out_of_range, fmt::format("peer {} of {} ranks", op.peer, shared_.num_ranks)});
  }
  if (!shared_.failed && op.code != OpCode::peer_flush && !data_part(context, op)) {
    // Refused: what waits for it must end all the same.
    if (op.counted()) later(Pending::Kind::count, op.counter);
    return;
  }
  const bool signals = op.code == OpCode::write_signal_add ||
                       op.code == OpCode::write_signal_increment ||
                       op.code == OpCode::write_inline_signal_add ||
                       op.code == OpCode::write_inline_signal_increment;
  if (signals) {
    if (op.signal >= context.num_signals) {
      return refuse(context, op,
                    {ErrorCode::out_of_range,
                     fmt::format("signal {} of {}", op.signal, context.num_signals)});
    }
    flush_remote(context);
    later(Pending::Kind::signal, op.signal).value = op.signal_value;
  }
  if (op.counted()) {
    flush_remote(context);
    later(Pending::Kind::count, op.counter);
  }
  urgent_ |= signals || op.counted();
}

/// Turns the data of an operation into copies. False: refused, the error is recorded.
bool Worker::data_part(ContextState& context, const Operation& op) {
  const bool add = op.code == OpCode::atomic_add;
  if (op.size == 0 && !add) return true;
  const bool read = op.code == OpCode::read;
  const bool inline_data = op.code >= OpCode::write_inline && !add;
  Region* remote = shared_.regions.find(op.remote);
  Region* local = inline_data || add ? nullptr : shared_.regions.find(op.local);
  if (remote == nullptr || (local == nullptr && !inline_data && !add)) {
    refuse(context, op,
           {ErrorCode::not_found,
            fmt::format("region handle {} is not registered (0: a window of several segments "
                        "was used without ncclGin_SegmentMixed)",
                        remote == nullptr ? op.remote : op.local)});
    return false;
  }
  const std::uint64_t size = add ? 8 : op.size;
  const std::uint64_t limit = remote->peers[op.peer].size;
  if (op.remote_offset > limit || size > limit - op.remote_offset) {
    refuse(context, op,
           {ErrorCode::out_of_range, fmt::format("{} bytes from {} of region {} with {} bytes",
                                                 size, op.remote_offset, op.remote, limit)});
    return false;
  }
  if (local != nullptr && (op.local_offset > local->size || size > local->size - op.local_offset)) {
    refuse(
        context, op,
        {ErrorCode::out_of_range, fmt::format("{} bytes from {} of local region {} with {} bytes",
                                              size, op.local_offset, op.local, local->size)});
    return false;
  }
  if ((inline_data && size > 8) || (add && op.remote_offset % 8 != 0)) {
    refuse(context, op,
           {ErrorCode::invalid_argument, "an inline size above 8 or an unaligned add"});
    return false;
  }
  if (add) {
    flush_remote(context);
    Pending& pending = context.pending.emplace_back();
    pending.kind = Pending::Kind::add;
    pending.peer = op.peer;
    pending.number = op.remote_offset;
    pending.value = op.inline_value;
    pending.region = remote;
    return true;
  }
  for (std::uint64_t at = 0; at < size;) {
    const Stretch there = locate(*remote, Rank{op.peer}, op.remote_offset + at, size - at);
    std::byte* here = local != nullptr ? local->data + op.local_offset + at : nullptr;
    std::uint64_t piece = there.size;
    if (there.mapped == nullptr) {
      piece = std::min(piece, kMaxPayload);
      auto& lists = read ? context.reads : context.writes;
      lists.resize(shared_.num_ranks);
      ++context.num_held;
      lists[op.peer].push_back({remote->peers[op.peer].id, op.remote_offset + at,
                                static_cast<std::uint32_t>(piece), here, op.inline_value});
    } else {
      append(context, Copy{read ? there.mapped : here, read ? here : there.mapped,
                           static_cast<std::uint32_t>(piece), 0, op.inline_value});
    }
    at += piece;
  }
  return true;
}

/// While answers are outstanding copies are held back: the next message then carries many. What
/// waits for them, a flush say, posts them at once.
void Worker::flush_remote_if_due(ContextState& context) {
  constexpr std::size_t kOutstanding = 2;
  constexpr std::size_t kEnough = 2048;
  if (context.tickets_open < kOutstanding || context.num_held >= kEnough) flush_remote(context);
}

/// Posts the held copies; what follows in the context waits for their ticket.
void Worker::flush_remote(ContextState& context) {
  if (context.num_held == 0) return;
  context.num_held = 0;
  auto ticket = std::make_shared<Ticket>();
  for (std::uint32_t r = 0; r < context.writes.size(); ++r) {
    if (context.writes[r].empty()) continue;
    shared_.remote->write(Rank{r}, std::exchange(context.writes[r], {}), ticket);
  }
  for (std::uint32_t r = 0; r < context.reads.size(); ++r) {
    if (context.reads[r].empty()) continue;
    shared_.remote->read(Rank{r}, std::exchange(context.reads[r], {}), ticket);
  }
  Pending& pending = context.pending.emplace_back();
  pending.kind = Pending::Kind::ticket;
  pending.ticket = std::move(ticket);
  ++context.tickets_open;
}

void Worker::take_rma(ContextState& context, const RmaOperation& rma, std::uint64_t number) {
  take(context, rma.operation);
  if (rma.signal_region != nullptr && !shared_.failed) {
    flush_remote(context);
    const std::uint64_t limit = rma.signal_region->peers[rma.operation.peer].size;
    if (rma.signal_offset % 8 != 0 || rma.signal_offset + 8 > limit) {
      refuse(context, rma.operation,
             {ErrorCode::out_of_range,
              fmt::format("a signal at {} of a region with {} bytes", rma.signal_offset, limit)});
    } else {
      Pending& pending = context.pending.emplace_back();
      pending.kind = Pending::Kind::add;
      pending.peer = rma.operation.peer;
      pending.number = rma.signal_offset;
      pending.value = rma.operation.signal_value;
      pending.region = rma.signal_region;
    }
  }
  // A request tells of its own operation, so its copies leave with it.
  flush_remote(context);
  if (context.pending.empty() || context.pending.back().kind != Pending::Kind::requests) {
    context.pending.emplace_back().kind = Pending::Kind::requests;
  }
  context.pending.back().number = number;
}

}  // namespace engram::gin_plugin
