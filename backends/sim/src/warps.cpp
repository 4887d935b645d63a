// How warps spend time: what issuing costs, and what they wait for.
#include <algorithm>
#include <cstring>

#include "executor.hpp"

namespace engram::sim_backend {
namespace {

/// Rows one warp keeps in flight by loads: eight independent 16-byte loads a lane group.
constexpr std::uint32_t kCopiesTogether = 8;

bool is_post(host::OpKind kind) { return kind <= host::OpKind::signal; }

sim::RequestKind request_kind(host::OpKind kind) {
  switch (kind) {
    case host::OpKind::get:
      return sim::RequestKind::read;
    case host::OpKind::put:
      return sim::RequestKind::write;
    case host::OpKind::put_value:
      return sim::RequestKind::write_inline;
    default:
      return sim::RequestKind::atomic_add;
  }
}

}  // namespace

void SimExecutor::schedule(std::uint32_t index, sim::Picos delay) {
  RunningWarp& running = warps_[index];
  if (running.scheduled) return;
  running.scheduled = true;
  fabric_->at(engine_->now() + delay, make_tag(TagKind::warp, index));
}

/// The issuing thread's time. Lanes build requests side by side; the ringing one pays for the MMIO
/// store, and an idle queue's first request is not hidden behind another.
sim::Picos SimExecutor::issue_cost(const host::Kernel& kernel, const host::Op& op) {
  const model::IssueProfile& issue = options_.fabric.profile.issue;
  const bool lanes = op.ring == core::Ring::later;
  const std::int64_t side_by_side = lanes ? std::max(1u, issue.warp_parallel) : 1;
  sim::Picos cost = sim::Picos(issue.build) / side_by_side;
  if (kernel.warps_per_block > 1) cost += issue.block_lock;
  if (op.ring == core::Ring::now) cost += issue.doorbell;
  return cost;
}

void SimExecutor::step(std::uint32_t index) {
  RunningWarp& running = warps_[index];
  sim::Picos spent{0};
  for (;;) {
    const host::Op* op = running.warp->head();
    if (op == nullptr) {
      if (spent.count() > 0) return schedule(index, spent);
      return end_warp(index);
    }
    if (is_post(op->kind)) {
      // Un-rung posts have no effect until someone rings: a run of them is one stretch of time.
      const sim::Picos cost = running.charged ? sim::Picos{0} : issue_cost(*running.kernel, *op);
      if (op->ring == core::Ring::now && !running.charged) {
        running.charged = true;
        return schedule(index, spent + cost);
      }
      if (!post(index, *op)) return block(index, *op);
      running.charged = false;
      spent += cost;
      running.warp->pop();
      continue;
    }
    if (spent.count() > 0) return schedule(index, spent);  // the rest comes after the posts
    switch (op->kind) {
      case host::OpKind::flush_async: {
        const sim::QpId qp = open_qp(running.warp->rank(), op->qp, op->peer);
        op->slot->queue = qp.value;
        op->slot->target = queue(qp).posted;
        if (options_.fabric.profile.nic.flush_rings) fabric_->ring(qp);
        break;
      }
      case host::OpKind::copy:
        if (start_copies(index)) return;
        continue;
      case host::OpKind::zero:
        if (op->bytes > 0 && !options_.row_check) {
          std::memset(memory_.at(op->peer, op->dst_window, op->dst_offset), 0, op->bytes);
        }
        break;
      case host::OpKind::add_word: {
        const std::uint32_t add =
            adds_.take({op->peer, op->dst_offset,
                        static_cast<std::int32_t>(static_cast<std::int64_t>(op->value))});
        const auto& profile = options_.fabric.profile;
        const sim::Picos seen =
            op->peer == running.warp->rank()
                ? sim::Picos(profile.scope.own_gpu)
                : sim::Picos(profile.nvlink.load_latency + profile.scope.domain);
        fabric_->at(engine_->now() + seen + fabric_->visibility_delay(op->peer),
                    make_tag(TagKind::add, add));
        break;
      }
      default:
        if (!answer_wait(index, *op)) return block(index, *op);
        running.blocked = false;
        break;
    }
    running.warp->pop();
  }
}

bool SimExecutor::post(std::uint32_t index, const host::Op& op) {
  RunningWarp& running = warps_[index];
  const Rank rank = running.warp->rank();
  const sim::QpId qp = open_qp(rank, op.qp, op.peer);
  if (has_fatal_) return false;
  if (!fabric_->has_slot(qp)) {
    queue(qp).slot_waiters.push_back(index);
    return false;
  }
  running.blocked = false;
  sim::Request request;
  request.kind = request_kind(op.kind);
  request.bytes = op.bytes;
  request.local_memory = sim::Memory::gpu;
  const host::Window remote = op.kind == host::OpKind::get ? op.src_window : op.dst_window;
  request.remote_memory = remote == host::Window::storage ? storage_memory() : sim::Memory::gpu;
  request.tag = posted_.take(Posted::of(op));
  fabric_->post(qp, request);
  Queue& state = queue(qp);
  ++state.posted;
  ++stats_.requests;
  ++ranks_[rank.value].outstanding;
  const sim::QpCounters counters = fabric_->counters(qp);
  stats_.max_queued = std::max(stats_.max_queued, counters.posted - counters.completed);
  note(1, qp.value, state.posted);
  ++running.kernel->counts.requests;
  if (op.ring == core::Ring::now) {
    ++running.kernel->counts.doorbells;
    fabric_->ring(qp);
  }
  return true;
}

/// Starts the loads of the rows at the head; true while the warp waits for them.
bool SimExecutor::start_copies(std::uint32_t index) {
  RunningWarp& running = warps_[index];
  running.copies = 0;
  const Rank rank = running.warp->rank();
  const bool gpu = storage_memory() == sim::Memory::gpu;
  for (; running.copies < kCopiesTogether; ++running.copies) {
    const host::Op* op = running.warp->peek(running.copies);
    if (op == nullptr || op->kind != host::OpKind::copy) break;
    sim::LoadRequest load;
    load.reader = rank;
    load.owner = op->peer;
    load.path = !gpu ? sim::LoadPath::host
                     : (op->peer == rank ? sim::LoadPath::own : sim::LoadPath::nvlink);
    load.rows = 1;
    load.row_bytes = op->bytes;
    load.sm = running.warp->position().block % std::max(1u, options_.fabric.profile.gpu.sms);
    if (!gpu) load.spread = options_.grid.num_nvlink * memory_.layout().stride();
    load.tag = make_tag(TagKind::warp, index);
    ++running.loads;
    fabric_->load(load);
  }
  return running.loads > 0;
}

void SimExecutor::finish_copies(std::uint32_t index) {
  RunningWarp& running = warps_[index];
  for (; running.copies > 0; --running.copies) {
    const host::Op& op = *running.warp->head();
    deliver_row(running.warp->rank(), op.peer, Posted::of(op));
    running.warp->pop();
  }
  step(index);
}

void SimExecutor::block(std::uint32_t index, const host::Op& op) {
  RunningWarp& running = warps_[index];
  if (running.blocked) return;  // woken in vain: the first deadline stands
  running.blocked = true;
  running.deadline = sim::Picos::max();
  if (!host::stops(op.kind)) return;
  const std::int64_t room = (sim::Picos::max() - engine_->now()).count() / 1000;
  if (op.deadline >= static_cast<std::uint64_t>(room)) return;
  running.deadline = engine_->now() + sim::Picos{static_cast<std::int64_t>(op.deadline) * 1000};
  // One timer a kernel: its warps wait with one deadline.
  if (std::exchange(running.kernel->expires, true)) return;
  fabric_->at(running.deadline, make_tag(TagKind::expiry, expiring_.take(running.kernel)));
}

void SimExecutor::expire(const host::Kernel* kernel) {
  std::vector<std::uint32_t> late;
  for (std::uint32_t i = 0; i < warps_.size(); ++i) {
    const RunningWarp& warp = warps_[i];
    if (warp.warp != nullptr && warp.kernel.get() == kernel && warp.blocked &&
        warp.deadline <= engine_->now()) {
      late.push_back(i);
    }
  }
  for (const std::uint32_t index : late) {
    RunningWarp& running = warps_[index];
    running.blocked = false;
    running.warp->answer(core::WaitStatus::timed_out);
    running.warp->pop();
    schedule(index, sim::Picos{0});
  }
}

void SimExecutor::wake(std::vector<std::uint32_t>& waiters) {
  for (const std::uint32_t index : waiters) {
    if (warps_[index].warp != nullptr && warps_[index].blocked) schedule(index, sim::Picos{0});
  }
  waiters.clear();
}

void SimExecutor::end_warp(std::uint32_t index) {
  RunningWarp& running = warps_[index];
  const std::shared_ptr<host::Kernel> kernel = std::move(running.kernel);
  const Rank rank = running.warp->rank();
  const host::WarpPosition position = running.warp->position();
  if (options_.fabric.observer != nullptr && position.warp == 0) {  // one stands for its block
    options_.fabric.observer->span({sim::Track::Kind::sm, rank.value, position.block},
                                   host::name_of(kernel->kind), running.begun, engine_->now(), 0);
  }
  running = RunningWarp{};
  warps_.give_back(index);
  if (--kernel->live > 0) return;
  end_kernel(rank, kernel, sim::Picos(options_.fabric.profile.gpu.kernel_drain));
}

/// After `delay`, whoever joins the kernel goes on.
void SimExecutor::end_kernel(Rank rank, std::shared_ptr<host::Kernel> kernel, sim::Picos delay) {
  kernel->owner = rank;
  kernel->live = 1;  // until then
  const std::uint32_t slot = ending_.take(std::move(kernel));
  fabric_->at(engine_->now() + delay, make_tag(TagKind::kernel_end, slot));
}

bool SimExecutor::answer_wait(std::uint32_t index, const host::Op& op) {
  using enum host::OpKind;
  RunningWarp& running = warps_[index];
  host::Warp& warp = *running.warp;
  RankState& rank = ranks_[warp.rank().value];
  switch (op.kind) {
    case wait_request: {
      if ((op.slot->queue & kFlowBit) != 0) {
        Flow& flow = flows_[op.slot->queue & ~kFlowBit];
        if (!flow.done) {
          flow.waiters.push_back(index);
          return false;
        }
        warp.answer(flow.failed ? core::WaitStatus::error : core::WaitStatus::ok);
        return true;
      }
      Queue& state = queues_[op.slot->queue];
      if (state.failed && state.failed_at < op.slot->target) {
        warp.answer(core::WaitStatus::error);
        return true;
      }
      if (state.completed < op.slot->target) {
        state.done_waiters.push_back(index);
        state.wake_at = std::min(state.wake_at, op.slot->target);
        return false;
      }
      warp.answer(core::WaitStatus::ok);
      return true;
    }
    case wait_flush: {
      bool failed = false;
      const std::uint32_t num_ranks = options_.grid.num_ranks();
      const std::size_t first = std::size_t{op.qp} * num_ranks;
      for (std::size_t at = first; at < first + num_ranks && at < rank.qps.size(); ++at) {
        if (rank.qps[at] == 0) continue;
        const sim::QpId qp{rank.qps[at] - 1};
        Queue& state = queue(qp);
        if (options_.fabric.profile.nic.flush_rings) fabric_->ring(qp);
        failed |= state.failed;
        if (!state.failed && state.completed < state.posted) {
          state.done_waiters.push_back(index);
          state.wake_at = std::min(state.wake_at, state.posted);
          return false;
        }
      }
      warp.answer(failed ? core::WaitStatus::error : core::WaitStatus::ok);
      return true;
    }
    case wait_signal:
      if (rank.signals[op.signal] < op.value) {
        rank.signal_waiters.push_back(index);
        return false;
      }
      warp.answer(core::WaitStatus::ok);
      return true;
    case wait_word:
      if (std::int64_t{word(op.peer, op.dst_offset)} != static_cast<std::int64_t>(op.value)) {
        ranks_[op.peer.value].word_waiters.push_back(index);
        return false;
      }
      warp.answer(core::WaitStatus::ok);
      return true;
    case read_signal:
      warp.answer(core::WaitStatus::ok, rank.signals[op.signal]);
      return true;
    case load_word:
      warp.answer(core::WaitStatus::ok,
                  static_cast<std::uint64_t>(std::int64_t{word(op.peer, op.dst_offset)}));
      return true;
    default:
      require(false, "only waits are answered");
      return true;
  }
}

}  // namespace engram::sim_backend
