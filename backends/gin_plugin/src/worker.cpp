#include "worker.hpp"

#include <algorithm>

namespace engram::gin_plugin {
namespace {

using Clock = std::chrono::steady_clock;

/// The most bytes in one message to an owner.
constexpr std::uint64_t kRemotePiece = 1 << 20;

void relax() { __builtin_ia32_pause(); }

}  // namespace

Worker::Worker(WorkerShared& shared, std::unique_ptr<Engine> engine, bool stores_signals)
    : shared_(shared), engine_(std::move(engine)), stores_signals_(stores_signals) {
  thread_ = std::thread([this] { run(); });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  commands_ = true;
  thread_.join();
}

void Worker::add(ContextState* context) {
  const std::lock_guard lock(mutex_);
  to_add_.push_back(context);
  commands_ = true;
}

void Worker::remove(ContextState* context, Nanos limit) {
  std::unique_lock lock(mutex_);
  to_remove_.push_back(context);
  commands_ = true;
  auto gone = [&] {
    return std::find(to_remove_.begin(), to_remove_.end(), context) == to_remove_.end();
  };
  if (changed_.wait_for(lock, limit, gone)) return;
  to_drop_.push_back(context);
  commands_ = true;
  changed_.wait(lock, gone);
}

void Worker::quiesce(Nanos limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = ++quiesce_asked_;
  commands_ = true;
  changed_.wait_for(lock, limit, [&] { return quiesce_done_ >= mine; });
}

void Worker::run() {
  if (auto ok = shared_.device.attach_thread(); !ok) shared_.fail(ok.error());
  Clock::time_point busy_at = Clock::now();
  for (unsigned round = 0;; ++round) {
    bool busy = false;
    if (commands_.load(std::memory_order_acquire) && take_commands()) return;
    busy |= poll_engine();
    if (stores_signals_) busy |= store_signals();
    bool more = false;
    for (ContextState* context : contexts_) {
      busy |= advance(*context);
      if (context->pending.size() < kMostPending) {
        more |= context->queue ? take_requests(*context) : take_descriptors(*context);
      }
    }
    busy |= more;
    // While descriptors keep coming the batch grows; it leaves when they pause, when a flush or
    // counter waits for it or when it is full.
    if (count_ > 0 && (!more || urgent_ || count_ >= engine_->preferred())) submit();
    if (shared_.failed.load(std::memory_order_relaxed)) poison_signals();
    if (busy || !in_flight_.empty()) {
      if ((round & 63) == 0 || busy) busy_at = Clock::now();
      relax();
      continue;
    }
    if ((round & 255) == 0 && Clock::now() - busy_at > shared_.spin_time) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      relax();
    }
  }
}

/// True: stop.
bool Worker::take_commands() {
  const std::lock_guard lock(mutex_);
  bool again = false;
  contexts_.insert(contexts_.end(), to_add_.begin(), to_add_.end());
  to_add_.clear();
  const bool idle = in_flight_.empty() && count_ == 0;
  auto leaves = [&](ContextState* c) {
    const bool dropped = std::find(to_drop_.begin(), to_drop_.end(), c) != to_drop_.end();
    if (!dropped && !(idle && c->pending.empty() && c->num_held == 0)) return false;
    std::erase(contexts_, c);
    return true;
  };
  std::erase_if(to_remove_, leaves);
  to_drop_.clear();
  again |= !to_remove_.empty();
  if (quiesce_done_ != quiesce_asked_) {
    if (idle) {
      quiesce_done_ = quiesce_asked_;
    } else {
      again = true;
    }
  }
  commands_.store(again, std::memory_order_release);
  changed_.notify_all();
  if (!stop_) return false;
  if (!in_flight_.empty() && !shared_.failed) {
    commands_ = true;
    return false;
  }
  return true;
}

bool Worker::poll_engine() {
  bool any = false;
  while (!in_flight_.empty()) {
    auto done = engine_->done(in_flight_.front().second);
    if (!done) {
      shared_.fail(within(done.error(), "rank ", shared_.self.value, ", copying").value());
      in_flight_.clear();
      completed_ = submitted_;
      return true;
    }
    if (!*done) break;
    completed_ = in_flight_.front().first;
    in_flight_.pop_front();
    any = true;
  }
  return any;
}

/// Pops what is complete at the front of a context's line.
bool Worker::advance(ContextState& context) {
  bool any = false;
  const bool failed = shared_.failed.load(std::memory_order_relaxed);
  while (!context.pending.empty()) {
    Pending& front = context.pending.front();
    switch (front.kind) {
      case Pending::Kind::batch:
        if (front.number > completed_ && !failed) return any;
        break;
      case Pending::Kind::ticket:
        if (!front.ticket->done() && !failed) return any;
        --context.tickets_open;
        break;
      case Pending::Kind::count:
        std::atomic_ref(context.counters[front.index].value)
            .store(++context.counts[front.index], std::memory_order_release);
        break;
      case Pending::Kind::reset_counter:
        context.counts[front.index] = 0;
        std::atomic_ref(context.counters[front.index].value).store(0, std::memory_order_release);
        break;
      case Pending::Kind::signal:
        if (!failed && !deliver(context, front)) return any;
        break;
      case Pending::Kind::add:
        if (!failed) {
          if (!start_add(context, front)) return any;
          any = true;
          continue;  // it became a batch or a ticket
        }
        break;
      case Pending::Kind::request:
        front.request->done.store(true, std::memory_order_release);
        break;
    }
    context.pending.pop_front();
    any = true;
  }
  return any;
}

bool Worker::deliver(ContextState& context, const Pending& pending) {
  abi::Signal* signals = context.signals[pending.peer];
  if (signals != nullptr) {
    std::atomic_ref(signals[pending.index].value)
        .fetch_add(pending.value, std::memory_order_acq_rel);
  } else {
    shared_.remote->signal(Rank{pending.peer}, {context.set->instance, context.index,
                                                pending.index, pending.value});
  }
  return true;
}

/// An atomic add on memory, once all before it is done: by the device where mapped, else by the
/// owner. False: no slot is free yet.
bool Worker::start_add(ContextState& context, Pending& pending) {
  const PeerRegion& target = pending.region->peers[pending.peer];
  const SignalMirror& mirror =
      pending.peer == shared_.self.value ? pending.region->mirror : target.mirror;
  const bool mirrored = bool(pending.region->mirror);
  if (mirrored && mirror && pending.number / 8 < mirror.num_words()) {
    mirror.add(pending.number / 8, pending.value);
    pending = {};
    pending.number = completed_;  // a batch that is done
    return true;
  }
  const Stretch there = locate(*pending.region, Rank{pending.peer}, pending.number, 8);
  if (mirrored || there.mapped == nullptr) {
    auto ticket = std::make_shared<Ticket>();
    shared_.remote->add(Rank{pending.peer}, pending.region->peers[pending.peer].id, pending.number,
                        pending.value, ticket);
    pending = {};
    pending.kind = Pending::Kind::ticket;
    pending.ticket = std::move(ticket);
    ++context.tickets_open;
    return true;
  }
  if (count_ > 0) submit();
  if (!ensure_open()) return false;
  const Add add{reinterpret_cast<std::uint64_t*>(there.mapped), pending.value};
  auto id = engine_->submit_adds(std::span(&add, 1));
  open_ = {};
  if (!id) {
    shared_.fail(id.error());
    return false;
  }
  in_flight_.emplace_back(++submitted_, *id);
  pending = {};
  pending.kind = Pending::Kind::batch;
  pending.number = submitted_;
  return true;
}

bool Worker::ensure_open() {
  if (open_.empty()) open_ = engine_->open();
  return !open_.empty();
}

void Worker::submit() {
  urgent_ = false;
  auto id = engine_->submit(std::exchange(count_, 0));
  open_ = {};
  ++submitted_;
  if (!id) {
    shared_.fail(id.error());
    in_flight_.clear();
    completed_ = submitted_;
    return;
  }
  in_flight_.emplace_back(submitted_, *id);
}

void Worker::append(ContextState& context, const Copy& copy) {
  // Rare: an operation over more segments than room() keeps free.
  while (!ensure_open() || count_ == open_.size()) {
    if (count_ > 0) submit();
    poll_engine();
    if (shared_.failed) return;
  }
  open_[count_++] = copy;
  const std::uint64_t number = submitted_ + 1;
  const bool noted = !context.pending.empty() &&
                     context.pending.back().kind == Pending::Kind::batch &&
                     context.pending.back().number == number;
  if (noted) return;
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
    if (!ensure_open() || !room() || count_ >= engine_->preferred()) break;
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
  while (ensure_open() && room() && context.queue->pop(rma)) {
    take_rma(context, rma);
    any = true;
  }
  flush_remote_if_due(context);
  return any;
}

void Worker::refuse(const ContextState& context, const Operation& op, Error error) {
  shared_.fail(Error{error.code,
                     fmt::format("rank {}, context {}, operation {} to peer {}: {}",
                                 shared_.self.value, context.index, static_cast<int>(op.code),
                                 op.peer, error.message)});
}

void Worker::take(ContextState& context, const Operation& op) {
  auto later = [&](Pending::Kind kind, std::uint32_t index) -> Pending& {
    Pending& pending = context.pending.emplace_back();
    pending.kind = kind;
    pending.peer = op.peer;
    pending.index = index;
    return pending;
  };
  const bool counts = op.counted() || op.code == OpCode::counter_reset ||
                      op.code == OpCode::counter_reset_quiet;
  if (counts && op.counter >= context.counts.size()) {
    return refuse(context, op, {ErrorCode::out_of_range,
                                fmt::format("counter {} of {}", op.counter, context.counts.size())});
  }
  if (op.code == OpCode::counter_reset || op.code == OpCode::counter_reset_quiet) {
    later(Pending::Kind::reset_counter, op.counter);
    return;
  }
  if (op.code == OpCode::counter_writeback || op.code == OpCode::signal_reset) return;
  if (op.peer >= shared_.num_ranks) {
    return refuse(context, op, {ErrorCode::out_of_range,
                                fmt::format("peer {} of {} ranks", op.peer, shared_.num_ranks)});
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
      return refuse(context, op, {ErrorCode::out_of_range,
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
    refuse(context, op, {ErrorCode::out_of_range,
                         fmt::format("{} bytes from {} of region {} with {} bytes", size,
                                     op.remote_offset, op.remote, limit)});
    return false;
  }
  if (local != nullptr && (op.local_offset > local->size || size > local->size - op.local_offset)) {
    refuse(context, op, {ErrorCode::out_of_range,
                         fmt::format("{} bytes from {} of local region {} with {} bytes", size,
                                     op.local_offset, op.local, local->size)});
    return false;
  }
  if ((inline_data && size > 8) || (add && op.remote_offset % 8 != 0)) {
    refuse(context, op, {ErrorCode::invalid_argument, "an inline size above 8 or an unaligned add"});
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
      piece = std::min(piece, kRemotePiece);
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

void Worker::take_rma(ContextState& context, const RmaOperation& rma) {
  take(context, rma.operation);
  if (rma.signal_region != nullptr && !shared_.failed) {
    flush_remote(context);
    const std::uint64_t limit = rma.signal_region->peers[rma.operation.peer].size;
    if (rma.signal_offset % 8 != 0 || rma.signal_offset + 8 > limit) {
      refuse(context, rma.operation,
             {ErrorCode::out_of_range, fmt::format("a signal at {} of a region with {} bytes",
                                                   rma.signal_offset, limit)});
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
  Pending& pending = context.pending.emplace_back();
  pending.kind = Pending::Kind::request;
  pending.request = rma.request;
}

/// Brings what the mirrors have gathered to the words that kernels read.
bool Worker::store_signals() {
  if (const auto now = shared_.regions.generation(); now != mirrors_generation_) {
    mirrors_generation_ = now;
    mirrored_ = shared_.regions.mirrored();
  }
  bool any = false;
  for (Region* region : mirrored_) {
    const std::uint64_t version = region->mirror.version();
    if (version == region->stored_version) continue;
    region->stored_version = version;
    for (std::size_t i = 0; i < region->mirror.num_words(); ++i) {
      const std::uint64_t value = region->mirror.value(i);
      if (value == region->stored[i]) continue;
      region->stored[i] = value;
      auto ok = engine_->store(reinterpret_cast<std::uint64_t*>(region->data) + i, value);
      if (!ok) shared_.fail(ok.error());
    }
    any = true;
  }
  return any;
}

/// After a failure kernels that wait for a signal must end: every signal of this rank grows, again
/// and again, by more than any kernel waits for and less than wraps a 32-bit comparison.
void Worker::poison_signals() {
  constexpr std::uint64_t kStep = 1 << 20;
  const auto now = Clock::now();
  if (now - poisoned_at_ < std::chrono::milliseconds(2)) return;
  poisoned_at_ = now;
  for (Region* region : mirrored_) {
    for (std::size_t i = 0; i < region->mirror.num_words(); ++i) region->mirror.add(i, kStep);
  }
  for (ContextState* context : contexts_) {
    if (context->signals.empty()) continue;
    abi::Signal* own = context->signals[shared_.self.value];
    for (std::uint32_t i = 0; own != nullptr && i < context->num_signals; ++i) {
      std::atomic_ref(own[i].value).fetch_add(kStep, std::memory_order_acq_rel);
    }
  }
}

}  // namespace engram::gin_plugin
