#include "engram/host/host_transport.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engram/core/barrier_protocol.hpp"

namespace engram::host {

const char* name_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::issue:
      return "issue";
    case KernelKind::direct:
      return "direct";
    case KernelKind::wait:
      return "wait";
    case KernelKind::barrier:
      return "barrier";
    case KernelKind::other:
      return "user";
  }
  return "?";
}

/// A posted fetch: what its warps point at, until every layer was waited for.
struct HostTransport::InFlight {
  std::vector<core::RoutedRead> reads;
  core::UnitLists lists;
  std::vector<core::UnitTicket<Request>> tickets;
  HostFetchArgs args;
  std::shared_ptr<Kernel> issue, direct;  // null where there is nothing to do
  std::vector<bool> waited;
};

namespace {

/// The warps' own deadline passes first, so that it is the protocol that says who is missing.
Nanos with_grace(Nanos limit) { return limit + limit / 8 + std::chrono::microseconds{10}; }

Result<void> as_result(const FirstError& errors) {
  if (errors.first.status == core::WaitStatus::ok) return {};
  return fail(errors.first.status == core::WaitStatus::timed_out ? ErrorCode::timed_out
                                                                 : ErrorCode::peer_lost,
              core::describe(errors.first));
}

}  // namespace

HostTransport::HostTransport(Executor& executor, Rank rank) : executor_(&executor), rank_(rank) {}
HostTransport::~HostTransport() = default;

Result<void> HostTransport::open(const core::WindowLayout& layout, const core::QueueShape& queues,
                                 std::optional<core::SegmentFunction> segment) {
  auto opened = executor_->memory().open(rank_, layout, segment);
  if (opened) opened = executor_->open_queues(rank_, queues);
  if (auto met = executor_->meet(rank_); !met) return met;
  return opened;
}

Result<void> HostTransport::write_segment(Bytes offset, std::span<const std::byte> bytes) {
  Memory& memory = executor_->memory();
  if (memory.generated()) {
    return fail(ErrorCode::unsupported, "rank ", rank_.value,
                ": generated storage is not written to");
  }
  const Bytes stride = memory.layout().stride();
  if (bytes.size() > stride.count || offset.count > stride.count - bytes.size()) {
    return fail(ErrorCode::out_of_range, "rank ", rank_.value, ": ", bytes.size(),
                " bytes at offset ", offset.count, " of a segment of ", stride.count, " bytes");
  }
  executor_->store(rank_, offset.count, bytes);
  return {};
}

Result<void> HostTransport::read_buffer(Bytes offset, std::span<std::byte> out) const {
  const Memory& memory = executor_->memory();
  if (!memory.contains(Window::buffer, offset.count, out.size())) {
    return fail(ErrorCode::out_of_range, "rank ", rank_.value, ": ", out.size(),
                " bytes at offset ", offset.count, " of a buffer window of ",
                memory.layout().buffer_window_bytes().count, " bytes");
  }
  memory.read(rank_, Window::buffer, offset.count, out);
  return {};
}

Result<void> HostTransport::check_windows(const core::FetchPost& fetch,
                                          const std::vector<core::RoutedRead>& reads) const {
  const Memory& memory = executor_->memory();
  for (std::uint64_t i = 0; i < reads.size(); ++i) {
    const core::RoutedRead& read = reads[i];
    const bool src = read.path == core::Path::none ||
                     memory.contains(Window::storage, read.src_offset, read.bytes);
    if (src && memory.contains(Window::buffer, read.dst_offset, read.bytes)) continue;
    const std::uint64_t in_layer = i % fetch.shape.per_layer();
    return fail(ErrorCode::out_of_range, "rank ", rank_.value, ": layer ",
                i / fetch.shape.per_layer(), ", token ", in_layer / fetch.shape.entries_per_token,
                ", slot ", in_layer % fetch.shape.entries_per_token, ": ", read.bytes, " bytes at ",
                src ? "buffer" : "storage", " offset ", src ? read.dst_offset : read.src_offset,
                " end past the window");
  }
  return {};
}

Result<core::Ticket> HostTransport::post(const core::FetchPost& fetch) {
  auto state = std::make_unique<InFlight>();
  const core::IndexReads routed{fetch.router, fetch.indices.data(), fetch.dst_base.data(),
                                fetch.shape.per_layer()};
  state->reads.reserve(fetch.shape.count());
  bool any_direct = false, any_rdma = false;
  for (std::uint32_t l = 0; l < fetch.shape.layers; ++l) {
    for (std::uint64_t i = 0; i < fetch.shape.per_layer(); ++i) {
      state->reads.push_back(routed.at(l, i));
      (state->reads.back().path == core::Path::rdma ? any_rdma : any_direct) = true;
    }
  }
  if (auto ok = check_windows(fetch, state->reads); !ok) return tl::unexpected(ok.error());

  const core::FetchPlan& plan = fetch.plan;
  state->tickets.resize(std::uint64_t{fetch.shape.layers} * plan.num_qps * plan.units_per_qp());
  state->waited.assign(fetch.shape.layers, false);
  state->lists = core::UnitLists(plan, state->reads, fetch.shape.layers);
  state->args.reads = {state->reads.data(), &state->lists, fetch.shape.layers,
                       fetch.shape.per_layer()};
  state->args.plan = plan;
  state->args.team = fetch.router.team;
  state->args.self = rank_;
  state->args.grid = grid();
  state->args.storage = Window::storage;
  state->args.buffer = Window::buffer;
  state->args.tickets = state->tickets.data();
  state->args.defects = executor_->defects();

  const HostFetchArgs* args = &state->args;
  if (any_rdma) {
    state->issue = std::make_shared<Kernel>();
    state->issue->kind = KernelKind::issue;
    state->issue->blocks = plan.num_qps;
    state->issue->warps_per_block = std::min(plan.warps, plan.units_per_qp());
    state->issue->body = [args](Warp& warp) {
      const HostGin gin(warp, warp.position().block);
      HostWarp group(warp);
      core::issue_reads(gin, group, warp.position().block, warp.position().warp, *args);
    };
    contexts_used_ = std::max(contexts_used_, plan.num_qps);
    executor_->launch(rank_, state->issue);
  }
  if (any_direct) {
    state->direct = std::make_shared<Kernel>();
    state->direct->kind = KernelKind::direct;
    state->direct->blocks = plan.direct_blocks;
    state->direct->warps_per_block = plan.warps;
    state->direct->body = [args](Warp& warp) {
      const HostGin gin(warp, 0);
      HostWarp group(warp);
      const std::uint64_t num_warps = std::uint64_t{args->plan.direct_blocks} * args->plan.warps;
      // Neighbouring rows go to different SMs, so that few rows still use all of them.
      const std::uint64_t index =
          std::uint64_t{warp.position().warp} * args->plan.direct_blocks + warp.position().block;
      for (std::uint32_t l = 0; l < args->reads.num_layers(); ++l) {
        core::gather_direct(gin, group, index, num_warps, *args, l);
      }
    };
    executor_->launch(rank_, state->direct);
  }
  const core::Ticket ticket{next_ticket_++};
  in_flight_.emplace(ticket.id, std::move(state));
  return ticket;
}

Result<core::IssueCounts> HostTransport::issued(core::Ticket ticket, Nanos limit) {
  const auto found = in_flight_.find(ticket.id);
  if (found == in_flight_.end()) {
    return fail(ErrorCode::invalid_argument, "rank ", rank_.value, ": ticket ", ticket.id,
                " is not in flight");
  }
  const InFlight& state = *found->second;
  for (const auto& kernel : {state.issue, state.direct}) {
    if (kernel == nullptr) continue;
    if (auto ended = executor_->join(rank_, *kernel, limit); !ended) {
      return tl::unexpected(ended.error());
    }
  }
  return state.issue == nullptr ? core::IssueCounts{} : state.issue->counts;
}

Result<void> HostTransport::wait(core::Ticket ticket, LayerIndex layer, Nanos limit) {
  const auto found = in_flight_.find(ticket.id);
  if (found == in_flight_.end() || layer.value >= found->second->waited.size() ||
      found->second->waited[layer.value]) {
    return fail(ErrorCode::invalid_argument, "rank ", rank_.value, ": ticket ", ticket.id,
                ", layer ", layer.value, " is not in flight");
  }
  InFlight& state = *found->second;
  const Nanos start = now();
  if (auto posted = issued(ticket, limit); !posted) return tl::unexpected(posted.error());
  if (state.issue != nullptr) {
    const HostFetchArgs* args = &state.args;
    Kernel wait;
    wait.kind = KernelKind::wait;
    wait.blocks = args->plan.num_qps;
    wait.warps_per_block =
        (std::min(args->plan.units_per_qp(), args->plan.warps * core::kWarpLanes) +
         core::kWarpLanes - 1) /
        core::kWarpLanes;
    const core::Deadline deadline{static_cast<std::uint64_t>((limit - (now() - start)).count())};
    auto shared = std::make_shared<Kernel>(std::move(wait));
    Kernel* kernel = shared.get();
    shared->body = [args, kernel, layer, deadline](Warp& warp) {
      const HostGin gin(warp, warp.position().block);
      HostWarp group(warp);
      core::wait_reads(gin, group, warp.position().block, warp.position().warp, *args, layer.value,
                       deadline, kernel->errors);
    };
    executor_->launch(rank_, shared);
    if (auto ended = executor_->join(rank_, *shared, with_grace(limit)); !ended) return ended;
    if (auto ok = as_result(shared->errors); !ok) return ok;
  }
  state.waited[layer.value] = true;
  if (std::ranges::all_of(state.waited, [](bool w) { return w; })) in_flight_.erase(found);
  return {};
}

Result<void> HostTransport::barrier(Nanos limit) {
  Kernel kernel;
  kernel.kind = KernelKind::barrier;
  auto shared = std::make_shared<Kernel>(std::move(kernel));
  Kernel* errors = shared.get();
  const core::BarrierArgs args{grid(), rank_, barriers_,
                               core::Deadline{static_cast<std::uint64_t>(limit.count())}};
  const core::PathCapabilities& paths = capabilities().paths;
  const bool by_words = paths.nvlink_loads && grid().num_nvlink > 1;
  const core::Team team = by_words ? core::Team::rail : core::Team::world;
  shared->body = [args, errors, by_words, team, contexts = contexts_used_](Warp& warp) {
    HostWarp group(warp);
    for (std::uint32_t qp = 0; qp < contexts; ++qp) {
      const core::WaitStatus status = HostGin(warp, qp).flush(args.deadline);
      if (status != core::WaitStatus::ok) {
        errors->errors.report({status, args.self.value, core::WaitError::kUnset, qp});
      }
    }
    const HostGin gin(warp, 0);
    core::network_barrier(gin, group, team, args, errors->errors);
    if (by_words) core::nvlink_barrier(gin, group, Window::buffer, args, errors->errors);
  };
  executor_->launch(rank_, shared);
  if (auto ended = executor_->join(rank_, *shared, with_grace(limit)); !ended) return ended;
  if (auto ok = as_result(shared->errors); !ok) return within(ok.error(), "barrier ", barriers_);
  ++barriers_;
  return {};
}

Result<void> HostTransport::run(Kernel kernel, Nanos limit) {
  auto shared = std::make_shared<Kernel>(std::move(kernel));
  contexts_used_ = std::max(contexts_used_, shared->blocks);
  executor_->launch(rank_, shared);
  if (auto ended = executor_->join(rank_, *shared, limit); !ended) return ended;
  return as_result(shared->errors);
}

}  // namespace engram::host
