#include "worker.hpp"

#include <algorithm>

namespace engram::gin_plugin {
namespace {

using Clock = std::chrono::steady_clock;

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
    if (count_ > 0 && leaves_now(more)) submit();
    if (shared_.failed.load(std::memory_order_relaxed)) poison_signals();
    if (busy || !in_flight_.empty()) {
      if ((round & 63) == 0) busy_at = Clock::now();
      if (!busy) relax();
      continue;
    }
    if ((round & 255) == 0 && Clock::now() - busy_at > shared_.spin_time) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      relax();
    }
  }
}

/// Whether the open batch is started. While descriptors keep coming it grows; it leaves when they
/// pause, when a flush or counter waits for it or when it is full. Where they come one by one, but
/// faster than copies end, it grows until the batch under way has ended: else each would go alone.
bool Worker::leaves_now(bool more) const {
  constexpr std::size_t kWorthwhile = 64;
  constexpr std::size_t kLone = 2;             // nothing else is under way: no look for more
  constexpr std::uint64_t kLarge = 64 * 1024;  // bytes that take longer than a batch's start
  if (urgent_ || count_ >= engine_->preferred()) return true;
  if (more) return in_flight_.empty() && count_ <= kLone;
  return in_flight_.empty() || count_ >= kWorthwhile || open_bytes_ >= kLarge;
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
      engine_lost_ = true;
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
      case Pending::Kind::counted:
        ++context.counts[front.index];
        if (failed) {  // then perhaps nobody has stored it
          std::atomic_ref(context.counters[front.index].value)
              .store(context.counts[front.index], std::memory_order_release);
        }
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
      case Pending::Kind::requests:
        context.rma_done.store(front.number, std::memory_order_release);
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
    shared_.remote->signal(Rank{pending.peer},
                           {context.set->instance, context.index, pending.index, pending.value});
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
  shared_.regions.note_signal(Rank{pending.peer}, target.id, pending.number);
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
  open_bytes_ = 0;
  auto id = engine_->submit(std::exchange(count_, 0), [this] { return flush_behind_batch(); });
  open_ = {};
  ++submitted_;
  if (!id) {
    engine_lost_ = true;
    shared_.fail(id.error());
    in_flight_.clear();
    completed_ = submitted_;
    return;
  }
  in_flight_.emplace_back(submitted_, *id);
}

/// A flush that has come while the last batch was being started and waits for it alone: the device
/// stores its counter itself, without a turn of this thread. A single get is shorter by that.
Mark Worker::flush_behind_batch() {
  for (ContextState* context : contexts_) {
    if (context->queue || context->pending.size() != 1) continue;
    const Pending& batch = context->pending.front();
    if (batch.kind != Pending::Kind::batch || batch.number != submitted_ + 1) continue;
    DescriptorWords words;
    if (!context->ring.peek(words)) continue;
    const auto op = decode(words);
    // Flush counters alone: the application sets others back.
    const std::size_t first_flush = context->counts.size() - shared_.num_ranks;
    const bool fits = op && op->code == OpCode::peer_flush && op->counted() &&
                      op->counter >= first_flush && op->counter < context->counts.size() &&
                      op->peer < shared_.num_ranks && context->num_held == 0;
    if (!fits) continue;
    context->ring.skip();
    std::atomic_ref(context->consumed->value)
        .store(context->ring.consumed(), std::memory_order_release);
    Pending& flush = context->pending.emplace_back();
    flush.kind = Pending::Kind::counted;
    flush.index = op->counter;
    return {&context->counters[op->counter].value, context->counts[op->counter] + 1};
  }
  return {};
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
  if (stores_signals_) poison_words(kStep);
}

/// The same for words in windows, which only the device reaches: a few at a time, while it does.
void Worker::poison_words(std::uint64_t step) {
  if (engine_lost_ || !in_flight_.empty() || !ensure_open()) return;
  std::vector<Add> adds;
  const SignalledWords& words = shared_.regions.signalled_words();
  for (std::size_t at = 0; words && at < SignalledWords::kMost && adds.size() < open_.size();
       ++at) {
    const auto word = words.word(at);
    if (!word) continue;
    const Region* region = shared_.regions.find(word->region);
    if (region == nullptr || word->offset + 8 > region->size) continue;
    adds.push_back({reinterpret_cast<std::uint64_t*>(region->data + word->offset), step});
  }
  if (adds.empty()) return;
  count_ = 0;  // nothing is copied after a failure
  open_bytes_ = 0;
  auto id = engine_->submit_adds(adds);
  open_ = {};
  if (id) {
    in_flight_.emplace_back(++submitted_, *id);
  } else {
    engine_lost_ = true;
  }
}

}  // namespace engram::gin_plugin
