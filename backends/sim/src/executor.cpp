#include "executor.hpp"

#include <algorithm>
#include <limits>

#include "engram/host/wait_report.hpp"

namespace engram::sim_backend {
namespace {

sim::Picos as_picos(Nanos t) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4000;
  return sim::Picos{std::clamp<std::int64_t>(t.count(), 0, kMost) * 1000};
}

}  // namespace

SimExecutor::SimExecutor(const SimOptions& options, const core::Capabilities& capabilities)
    : options_(options),
      capabilities_(capabilities),
      memory_(options.grid, !options.row_check.has_value()),
      corrupt_rows_(options_.corrupt_rows),
      late_stores_(options.grid.num_ranks()) {
  results_.resize(options.grid.num_ranks());
}

Result<core::BackendStats> SimExecutor::run(const core::RankMain& main) {
  const std::uint32_t num_ranks = options_.grid.num_ranks();
  sim::EngineOptions engine;
  engine.ranks = num_ranks;
  engine.watchdog = options_.watchdog;
  engine.stack_kib = 512;
  auto created = sim::Engine::create(engine);
  if (!created) return tl::unexpected(created.error());
  engine_ = std::move(*created);
  auto fabric = sim::Fabric::create(*engine_, *this, options_.fabric);
  if (!fabric) return tl::unexpected(fabric.error());
  fabric_ = std::move(*fabric);
  links_ = std::make_unique<LinkMeter>(*fabric_, num_ranks);
  if (options_.measured) {
    *options_.measured = [this](bool begins) { links_->mark(begins, engine_->now()); };
  }
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    RankState& state = ranks_.emplace_back();
    state.signals.resize(num_ranks + 4);
    state.semaphore = engine_->create_semaphore(fmt::format("rank {}", r));
  }
  std::optional<std::uint32_t> first_failed;
  const auto ran = engine_->run([&](Rank rank) {
    host::HostTransport transport(*this, rank);
    results_[rank.value] = main(transport);
    if (!results_[rank.value] && !first_failed) {
      first_failed = rank.value;
      failed_at_ = engine_->now();
      links_->cut(*failed_at_);
    }
    if (results_[rank.value]) drain(rank);
  });
  if (has_fatal_) return tl::unexpected(fatal_);
  Result<void> ended;
  if (first_failed) {
    ended = within(results_[*first_failed].error(), "rank ", *first_failed);
    if (ended.error().code != ErrorCode::wrong_bytes) {
      ended.error().message += cause(Rank{*first_failed});
    }
  } else if (!ran) {
    ended = ran;
    const std::string waits = who_waits();
    if (!waits.empty()) ended.error().message += "; " + waits;
    ended.error().message += cause(std::nullopt);
  } else if (wrong_rows_ > 0) {
    ended = fail(ErrorCode::wrong_bytes, wrong_rows_, " rows arrived wrong");
  }
  if (!ended) links_->cut(engine_->now());
  collect(stats_);
  if (ended) return stats_;
  if (options_.until_failure) *options_.until_failure = stats_;
  return tl::unexpected(ended.error());
}

Nanos SimExecutor::now() const { return std::chrono::duration_cast<Nanos>(engine_->now()); }

Result<void> SimExecutor::open_queues(Rank rank, const core::QueueShape& queues) {
  if (queue_shape_ && queue_shape_->depth != queues.depth) {
    return fail(ErrorCode::invalid_argument, "rank ", rank.value, " opens QPs of depth ",
                queues.depth, ", others of depth ", queue_shape_->depth);
  }
  queue_shape_ = queues;
  return {};
}

void SimExecutor::launch(Rank rank, std::shared_ptr<host::Kernel> kernel) {
  kernel->live = kernel->blocks * kernel->warps_per_block;
  const bool as_flow =
      options_.fabric.fidelity == sim::Fidelity::flow && kernel->kind == host::KernelKind::issue;
  const bool direct = options_.paths.nvlink_loads || options_.paths.host_loads;
  std::vector<std::uint32_t> started;
  for (std::uint32_t b = 0; b < kernel->blocks; ++b) {
    for (std::uint32_t w = 0; w < kernel->warps_per_block; ++w) {
      host::Warp& warp =
          kernel->warps.emplace_back(rank, options_.grid, memory_, direct, host::WarpPosition{b, w},
                                     kernel->body, kernel->requests);
      if (as_flow) continue;
      RunningWarp running;
      running.kernel = kernel;
      running.begun = engine_->now() + options_.fabric.profile.gpu.kernel_launch;
      running.warp = &warp;
      started.push_back(warps_.take(std::move(running)));
    }
  }
  if (as_flow) return launch_as_flows(rank, kernel);
  sim::Picos begin = options_.fabric.profile.gpu.kernel_launch;
  // A barrier releases to the system first: it waits until the rank's stores are seen.
  const bool releases = kernel->kind == host::KernelKind::barrier &&
                        !(core::kDefectsBuilt && options_.defects.barrier_without_release);
  if (releases) begin = std::max(begin, late_stores_.all_seen(rank) - engine_->now());
  for (const std::uint32_t index : started) schedule(index, begin);
}

Result<void> SimExecutor::join(Rank rank, host::Kernel& kernel, Nanos limit) {
  RankState& state = ranks_[rank.value];
  const sim::Picos until = engine_->now() + as_picos(limit);
  while (kernel.live > 0) {
    state.joins = &kernel;
    const sim::Wake woke = engine_->acquire_for(state.semaphore, until - engine_->now());
    state.joins = nullptr;
    if (woke == sim::Wake::stopped) {
      return fail(ErrorCode::deadlock, "rank ", rank.value, ": the run ended while a ",
                  host::name_of(kernel.kind), " kernel was running");
    }
    if (woke == sim::Wake::timed_out && kernel.live > 0) {
      return fail(ErrorCode::timed_out, "rank ", rank.value, ": a ", host::name_of(kernel.kind),
                  " kernel did not end within ", limit.count(), " ns: ", who_waits());
    }
  }
  return {};
}

Result<void> SimExecutor::meet(Rank rank) {
  const std::uint32_t num_ranks = options_.grid.num_ranks();
  if (++met_ % num_ranks == 0) {
    for (RankState& state : ranks_) {
      // First the flag: a release may run the other rank before it returns.
      if (std::exchange(state.meets, false)) engine_->release(state.semaphore);
    }
    return {};
  }
  RankState& state = ranks_[rank.value];
  state.meets = true;
  while (state.meets) {
    if (engine_->acquire(state.semaphore) == sim::Wake::stopped) {
      return fail(ErrorCode::deadlock, "rank ", rank.value, " waits for all ranks to open windows");
    }
  }
  return {};
}

/// A program may end with completions on their way (a barrier's last signals): those still come.
void SimExecutor::drain(Rank rank) {
  RankState& state = ranks_[rank.value];
  state.drains = true;
  while (state.outstanding > 0 && engine_->acquire(state.semaphore) == sim::Wake::acquired) {
  }
}

sim::QpId SimExecutor::open_qp(Rank rank, std::uint32_t context, Rank peer) {
  auto& table = ranks_[rank.value].qps;
  const std::size_t at = std::size_t{context} * options_.grid.num_ranks() + peer.value;
  if (at >= table.size()) table.resize((context + 1ull) * options_.grid.num_ranks());
  if (table[at] == 0) {
    sim::QpOptions options;
    options.depth = queue_shape_ ? queue_shape_->depth : core::QueueShape{}.depth;
    options.service_level = options_.service_level;
    options.shared = true;  // by the warps of one block
    auto qp = fabric_->open_qp(rank, QpIndex{context}, peer, options);
    if (!qp) {
      // A wrong configuration, seen only now: end the run with its message.
      if (!has_fatal_) fatal_ = qp.error();
      has_fatal_ = true;
      engine_->stop(qp.error());
      return sim::QpId{};
    }
    table[at] = qp->value + 1;
    if (options_.qp_opened) options_.qp_opened(*qp, rank, QpIndex{context}, peer);
    if (qp->value >= queues_.size()) queues_.resize(qp->value + 1);
    queues_[qp->value].open = true;
    queues_[qp->value].rank = rank;
    queues_[qp->value].peer = peer;
  }
  return sim::QpId{table[at] - 1};
}

SimExecutor::Queue& SimExecutor::queue(sim::QpId qp) { return queues_[qp.value]; }

std::int32_t& SimExecutor::word(Rank rank, std::uint64_t offset) {
  return *reinterpret_cast<std::int32_t*>(memory_.at(rank, host::Window::buffer, offset));
}

sim::Memory SimExecutor::storage_memory() const {
  return memory_.layout().kind() == core::WindowKind::gpu ? sim::Memory::gpu : sim::Memory::host;
}

std::string SimExecutor::who_waits() {
  host::WaitReport report;
  for (std::uint32_t i = 0; i < warps_.size(); ++i) {
    RunningWarp& running = warps_[i];
    if (running.warp == nullptr || !running.blocked) continue;
    const host::Op& op = *running.warp->head();
    const Rank rank = running.warp->rank();
    host::WaitFacts facts;
    std::optional<sim::QpId> qp;
    if (!host::stops(op.kind)) qp = open_qp(rank, op.qp, op.peer);
    if (op.kind == host::OpKind::wait_request && op.slot->queue < queues_.size()) {
      qp = sim::QpId{op.slot->queue};
    }
    if (qp) {
      const auto info = fabric_->qp_info(*qp);
      const sim::QpCounters n = fabric_->counters(*qp);
      facts.queue = {info.index.value, info.remote, n.posted - n.rung, n.rung - n.completed,
                     info.options.depth};
    }
    if (op.kind == host::OpKind::wait_signal) facts.signal = ranks_[rank.value].signals[op.signal];
    if (op.kind == host::OpKind::wait_word) facts.word = word(op.peer, op.dst_offset);
    if (!report.add(*running.kernel, *running.warp, facts)) break;
  }
  return report.text();
}

void SimExecutor::collect(core::BackendStats& stats) {
  stats.queues = fabric_->num_qps();
  stats.steps = fabric_->num_events();
  links_->collect(engine_->now(), stats);
  if (options_.fabric.congestion != sim::Congestion::none) {
    const sim::CongestionCounters& c = fabric_->congestion();
    stats.congestion = {c.marked, c.cuts, c.longest_queue, c.slowest};
  }
  report_faults();
  report_background();
}

}  // namespace engram::sim_backend
