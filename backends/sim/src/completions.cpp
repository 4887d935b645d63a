// What the fabric tells: bytes move, requests complete, timers and loads end.
#include <utility>

#include "engram/core/row_pattern.hpp"
#include "executor.hpp"

namespace engram::sim_backend {

void SimExecutor::note(std::uint64_t what, std::uint64_t a, std::uint64_t b) {
  const auto time = static_cast<std::uint64_t>(engine_->now().count());
  stats_.trace_hash = core::mix64(stats_.trace_hash ^ time ^ what << 60 ^ a << 40 ^ b);
}

/// The row that `op` asks for arrives: into the buffer, or past the checker.
void SimExecutor::deliver_row(Rank to, Rank from, const Posted& op) {
  bool corrupt = false;
  if (!corrupt_rows_.none() && op.src_window == host::Window::storage) {
    const Rank owner = memory_.owner(from, op.src_window, op.src_or_value);
    const std::uint64_t in_segment = op.src_or_value % memory_.layout().stride().count;
    corrupt = corrupt_rows_.hit(owner, in_segment, engine_->now());
  }
  const std::uint64_t dst = op.dst_or_signal;
  if (!options_.row_check) {
    std::byte* at = memory_.at(to, op.dst_window, dst);
    memory_.read(from, op.src_window, op.src_or_value, {at, op.bytes});
    if (corrupt && op.bytes > 0) *at ^= std::byte{1};
  } else {
    row_.resize(op.bytes);
    memory_.read(from, op.src_window, op.src_or_value, row_);
    if (corrupt && op.bytes > 0) row_[0] ^= std::byte{1};
    if (!(*options_.row_check)(to, dst, row_)) ++wrong_rows_;
  }
}

void SimExecutor::remote_access(sim::QpId qp, const sim::Request& request) {
  if (request.tag >> 56 == static_cast<std::uint64_t>(TagKind::flow)) {
    return flow_access(static_cast<std::uint32_t>(request.tag), request);
  }
  const Posted& op = posted_[static_cast<std::uint32_t>(request.tag)];
  const auto [rank, peer] = std::pair(queue(qp).rank, queue(qp).peer);
  note(2, qp.value, op.dst_or_signal);
  if (op.kind == host::OpKind::get) return deliver_row(rank, peer, op);
  if (host::access_peer(memory_, rank, peer, op)) return;
  const GivenSignal given{peer, op.dst_or_signal, op.src_or_value};
  const sim::Picos late = fabric_->visibility_delay(peer);
  if (late == sim::Picos{0}) return give_signal(given);
  fabric_->at(engine_->now() + late, make_tag(TagKind::signal, late_signals_.take(given)));
}

void SimExecutor::give_signal(const GivenSignal& given) {
  ranks_[given.to.value].signals[given.signal] += given.value;
  wake(ranks_[given.to.value].signal_waiters);
}

void SimExecutor::completed(sim::QpId qp, const sim::Request& request, sim::Status status) {
  if (request.tag >> 56 == static_cast<std::uint64_t>(TagKind::flow)) {
    if (status == sim::Status::error) flows_[request.tag & 0xffffffff].failed = true;
    stats_.completions += request.count;
    return;
  }
  Queue& state = queue(qp);
  RankState& rank = ranks_[state.rank.value];
  posted_.give_back(static_cast<std::uint32_t>(request.tag));
  if (--rank.outstanding == 0 && rank.drains) engine_->release(rank.semaphore);
  if (status == sim::Status::error && !state.failed) {
    state.failed = true;
    state.failed_at = state.completed;
  }
  ++state.completed;
  ++stats_.completions;
  note(3, qp.value, state.completed);
  if (!state.failed && state.completed < state.wake_at) return;  // nobody's requests are all there
  state.wake_at = Queue::kNever;
  wake(state.done_waiters);
}

void SimExecutor::slot_freed(sim::QpId qp) { wake(queue(qp).slot_waiters); }

void SimExecutor::timer(std::uint64_t tag) {
  const std::uint64_t number = tag & ((std::uint64_t{1} << 56) - 1);
  switch (static_cast<TagKind>(tag >> 56)) {
    case TagKind::warp: {
      const auto index = static_cast<std::uint32_t>(number);
      warps_[index].scheduled = false;
      return step(index);
    }
    case TagKind::add: {
      const PendingAdd add = adds_[static_cast<std::uint32_t>(number)];
      adds_.give_back(static_cast<std::uint32_t>(number));
      word(add.rank, add.offset) += add.add;
      note(4, add.rank.value, add.offset);
      return wake(ranks_[add.rank.value].word_waiters);
    }
    case TagKind::expiry: {
      const auto kernel = std::exchange(expiring_[static_cast<std::uint32_t>(number)], {}).lock();
      expiring_.give_back(static_cast<std::uint32_t>(number));
      if (kernel != nullptr) expire(kernel.get());
      return;
    }
    case TagKind::kernel_end: {
      const auto kernel = std::move(ending_[static_cast<std::uint32_t>(number)]);
      ending_.give_back(static_cast<std::uint32_t>(number));
      kernel->live = 0;
      RankState& state = ranks_[kernel->owner.value];
      if (state.joins == kernel.get()) engine_->release(state.semaphore);
      return;
    }
    case TagKind::flow:
      return start_flows(static_cast<std::uint32_t>(number));
    case TagKind::stores:
      return settle_stores(Rank{static_cast<std::uint32_t>(number)});
    case TagKind::signal: {
      const GivenSignal late = late_signals_[static_cast<std::uint32_t>(number)];
      late_signals_.give_back(static_cast<std::uint32_t>(number));
      return give_signal(late);
    }
  }
}

void SimExecutor::loaded(std::uint64_t tag) {
  const std::uint64_t number = tag & ((std::uint64_t{1} << 56) - 1);
  if (static_cast<TagKind>(tag >> 56) == TagKind::flow) {
    Flow& flow = flows_[number];
    flow.done = true;
    flow.reads = {};
    return wake(flow.waiters);
  }
  const auto index = static_cast<std::uint32_t>(number);
  if (--warps_[index].loads == 0) finish_copies(index);
}

void SimExecutor::soon(const sim::Request& request) {
  const auto number = static_cast<std::uint32_t>(request.tag);
  if (request.tag >> 56 == static_cast<std::uint64_t>(TagKind::flow)) {
    __builtin_prefetch(&flows_[number], 1);
  } else {
    posted_.fetch(number);
  }
}

}  // namespace engram::sim_backend
