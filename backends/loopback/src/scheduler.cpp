#include "scheduler.hpp"

#include <algorithm>
#include <limits>

#include "engram/core/row_pattern.hpp"
#include "engram/host/wait_report.hpp"

namespace engram::loopback {
namespace {

constexpr std::size_t kMainStack = 512 * 1024;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
/// A run that needs more steps than this is looping.
constexpr std::uint64_t kMostSteps = 2'000'000'000;

std::uint64_t after(std::uint64_t now, Nanos limit) {
  const auto ticks = static_cast<std::uint64_t>(std::max<std::int64_t>(0, limit.count()));
  return ticks > kNever - now ? kNever : now + ticks;
}

}  // namespace

Scheduler::Scheduler(const LoopbackOptions& options, const core::Capabilities& capabilities)
    : options_(options),
      capabilities_(capabilities),
      memory_(options.grid, true),
      random_(core::mix64(options.seed)) {
  // Half of the seeds favour code (deep queues), half the fabric (empty ones), to various degrees.
  code_share_ = static_cast<std::uint32_t>(random_.below(16)) + 1;
  for (std::uint32_t r = 0; r < options.grid.num_ranks(); ++r) {
    RankState& rank = ranks_.emplace_back();
    rank.signals.resize(options.grid.num_ranks() + 4);
    rank.words_actor = {Actor::Kind::words, r, -1};
  }
}

Result<core::BackendStats> Scheduler::run(const core::RankMain& main) {
  for (std::uint32_t r = 0; r < options_.grid.num_ranks(); ++r) {
    Program& program = programs_.emplace_back();
    program.actor = {Actor::Kind::main, r, -1};
    if (options_.dead_rank == Rank{r}) {
      program.ended = true;
      continue;
    }
    program.transport = std::make_unique<host::HostTransport>(*this, Rank{r});
    program.fiber = std::make_unique<host::Fiber>(
        kMainStack, [&main, &program] { program.result = main(*program.transport); });
    ++running_programs_;
    code_.set(program.actor, true);
  }
  std::optional<std::uint32_t> first_failed;
  // Programs may end with completions on their way (a barrier's last signals): those still come.
  while (running_programs_ > 0 || fabric_.size() > 0) {
    if (code_.size() + fabric_.size() == 0 && !pass_next_deadline()) break;
    Actor& actor = pick();
    ++now_;
    ++stats_.steps;
    step(actor);
    if (!first_failed && actor.kind == Actor::Kind::main && programs_[actor.index].ended &&
        !programs_[actor.index].result) {
      first_failed = actor.index;
    }
    if (!violation_.empty()) return fail(ErrorCode::internal, "invariant broken: ", violation_);
    if (stats_.steps > kMostSteps) {
      return fail(ErrorCode::timed_out, kMostSteps, " steps without an end: ", who_waits());
    }
  }
  if (first_failed) {
    return within(programs_[*first_failed].result.error(), "rank ", *first_failed);
  }
  if (running_programs_ > 0) {
    return fail(ErrorCode::deadlock, "nothing can move any more: ", who_waits());
  }
  stats_.queues = queues_.size();
  return stats_;
}

Actor& Scheduler::pick() {
  const bool code = fabric_.size() == 0 || (code_.size() != 0 && random_.below(17) < code_share_);
  const ReadyList& list = code ? code_ : fabric_;
  return list.at(random_.below(list.size()));
}

void Scheduler::step(Actor& actor) {
  switch (actor.kind) {
    case Actor::Kind::main:
      return step_main(programs_[actor.index]);
    case Actor::Kind::warp:
      return step_warp(actor.index);
    case Actor::Kind::queue:
      return step_queue(queues_[actor.index]);
    case Actor::Kind::words:
      return step_words(actor.index);
  }
}

void Scheduler::step_main(Program& program) {
  note("main", program.actor.index, 0, 0);
  program.fiber->resume();
  if (!program.fiber->done()) return;
  program.ended = true;
  code_.set(program.actor, false);
  --running_programs_;
}

bool Scheduler::pass_next_deadline() {
  Program* main = nullptr;
  RunningWarp* warp = nullptr;
  std::uint64_t next = kNever;
  for (RunningWarp& running : warps_) {
    if (running.blocked && running.deadline < next) next = running.deadline, warp = &running;
  }
  for (Program& program : programs_) {
    if (program.ended || program.joins == nullptr || program.deadline >= next) continue;
    next = program.deadline, main = &program;
  }
  if (next == kNever) return false;
  stuck_ = who_waits();
  now_ = std::max(now_, next);
  if (main != nullptr) {
    main->timed_out = true;
    code_.set(main->actor, true);
    return true;
  }
  answer(*warp, core::WaitStatus::timed_out, 0);
  return true;
}

Result<void> Scheduler::open_queues(Rank rank, const core::QueueShape& queues) {
  if (queue_shape_ && queue_shape_->depth != queues.depth) {
    return fail(ErrorCode::invalid_argument, "rank ", rank.value, " opens QPs of depth ",
                queues.depth, ", others of depth ", queue_shape_->depth);
  }
  queue_shape_ = queues;
  return {};
}

void Scheduler::launch(Rank rank, std::shared_ptr<host::Kernel> kernel) {
  kernel->live = kernel->blocks * kernel->warps_per_block;
  for (std::uint32_t b = 0; b < kernel->blocks; ++b) {
    for (std::uint32_t w = 0; w < kernel->warps_per_block; ++w) {
      host::Warp& warp = kernel->warps.emplace_back(
          rank, options_.grid, memory_, options_.paths.nvlink_loads || options_.paths.host_loads,
          host::WarpPosition{b, w}, kernel->body, kernel->requests);
      RunningWarp& running = warps_.emplace_back();
      running.kernel = kernel;
      running.warp = &warp;
      running.actor = {Actor::Kind::warp, static_cast<std::uint32_t>(warps_.size() - 1), -1};
      code_.set(running.actor, true);
    }
  }
}

Result<void> Scheduler::join(Rank rank, host::Kernel& kernel, Nanos limit) {
  Program& program = programs_[rank.value];
  program.deadline = after(now_, limit);
  while (kernel.live > 0) {
    program.joins = &kernel;
    code_.set(program.actor, false);
    program.fiber->suspend();
    program.joins = nullptr;
    if (program.timed_out) {
      return fail(ErrorCode::timed_out, "rank ", rank.value, ": a ", host::name_of(kernel.kind),
                  " kernel did not end within ", limit.count(), " ns: ", stuck_);
    }
  }
  return {};
}

Result<void> Scheduler::meet(Rank rank) {
  if (++met_ % options_.grid.num_ranks() == 0) {
    for (Program& program : programs_) {
      if (!program.ended) code_.set(program.actor, true);
    }
    return {};
  }
  const std::uint32_t mine = (met_ - 1) / options_.grid.num_ranks();
  while (met_ / options_.grid.num_ranks() <= mine) {
    code_.set(programs_[rank.value].actor, false);
    programs_[rank.value].fiber->suspend();
  }
  return {};
}

std::string Scheduler::who_waits() {
  host::WaitReport report;
  for (RunningWarp& running : warps_) {
    if (!running.blocked || running.warp == nullptr) continue;
    const host::Op& op = *running.warp->head();
    const Rank rank = running.warp->rank();
    host::WaitFacts facts;
    std::uint32_t queue = host::RequestSlot::kNoQueue;
    if (op.kind == host::OpKind::wait_request) queue = op.slot->queue;
    if (!host::stops(op.kind)) queue = open_queue(rank, op.qp, op.peer);
    if (queue != host::RequestSlot::kNoQueue) {
      const Queue& q = queues_[queue];
      facts.queue = {q.qp, q.peer, q.posted - q.rung, q.rung - q.completed, q.depth};
    }
    if (op.kind == host::OpKind::wait_signal) facts.signal = ranks_[rank.value].signals[op.signal];
    if (op.kind == host::OpKind::wait_word) facts.word = word(op.peer, op.dst_offset);
    if (!report.add(*running.kernel, *running.warp, facts)) break;
  }
  for (std::uint32_t r = 0; report.text().empty() && r < programs_.size(); ++r) {
    if (!programs_[r].ended) return fmt::format("rank {} waits for other ranks", r);
  }
  return report.text();
}

void Scheduler::violate(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

void Scheduler::note(const char* what, std::uint32_t a, std::uint32_t b, std::uint64_t c) {
  stats_.trace_hash = core::mix64(stats_.trace_hash ^ (static_cast<std::uint64_t>(*what) << 56) ^
                                  (std::uint64_t{a} << 36) ^ (std::uint64_t{b} << 20) ^ c);
  if (options_.trace != nullptr) {
    options_.trace->push_back(fmt::format("{} {} {} {} {}", now_, what, a, b, c));
  }
}

}  // namespace engram::loopback
