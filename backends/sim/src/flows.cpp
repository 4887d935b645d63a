// Fidelity flow: the gets of a launch, added up by peer and plane, travel as one flow each.
#include <algorithm>

#include "executor.hpp"

namespace engram::sim_backend {
namespace {

/// What of a launch goes to one peer over one plane, while its warps are read.
struct Sum {
  std::uint32_t flow = 0;
  std::uint64_t on_this_qp = 0, on_fullest_qp = 0, doorbells = 0;
  std::uint32_t qp = 0;       // that on_this_qp is about
  sim::Picos first_ring{-1};  // on the warps' clock; negative = none
  sim::Picos last_ring{0};

  void add(std::uint32_t to_qp) {
    if (to_qp != qp) on_this_qp = 0;
    qp = to_qp;
    on_fullest_qp = std::max(on_fullest_qp, ++on_this_qp);
  }
};

}  // namespace

/// The protocol runs as it is, only without a clock: what it would post is added up.
void SimExecutor::launch_as_flows(Rank rank, const std::shared_ptr<host::Kernel>& kernel) {
  const std::uint32_t num_ranks = options_.grid.num_ranks();
  const std::uint32_t planes = options_.fabric.topology.num_planes();
  constexpr std::uint32_t kUnused = 0xffffffff;
  std::vector<std::uint32_t> places(std::size_t{num_ranks} * planes, kUnused);
  std::vector<Sum> sums;
  const auto sum_of = [&](const host::Op& op) -> Sum& {
    std::uint32_t& place = places[std::size_t{op.peer.value} * planes + op.qp % planes];
    if (place == kUnused) {
      place = static_cast<std::uint32_t>(sums.size());
      sums.push_back({.flow = static_cast<std::uint32_t>(flows_.size())});
      Flow& flow = flows_.emplace_back();
      flow.rank = rank;
      flow.peer = op.peer;
      flow.plane = op.qp % planes;
    }
    return sums[place];
  };

  sim::Picos longest{0};
  for (host::Warp& warp : kernel->warps) {
    sim::Picos spent{0};
    for (host::Op* op = warp.head(); op != nullptr; op = warp.head()) {
      Sum& sum = sum_of(*op);
      Flow& flow = flows_[sum.flow];
      if (op->kind == host::OpKind::get) {
        spent += issue_cost(*kernel, *op);
        sum.add(op->qp);
        flow.reads.push_back({op->src_offset, op->dst_offset, op->bytes});
        flow.bytes += op->bytes;
        if (op->ring == core::Ring::now) {
          ++sum.doorbells;
          if (sum.first_ring < sim::Picos{0} || spent < sum.first_ring) sum.first_ring = spent;
          sum.last_ring = std::max(sum.last_ring, spent);
        }
      } else {
        require(op->kind == host::OpKind::flush_async, "an issue kernel gets and flushes");
        op->slot->queue = kFlowBit | sum.flow;
      }
      warp.pop();
    }
    longest = std::max(longest, spent);
  }

  FlowLaunch launch{rank, kernel->blocks, engine_->now(), 0, {}};
  launch.begin += sim::Picos(options_.fabric.profile.gpu.kernel_launch);
  for (const Sum& sum : sums) {
    Flow& flow = flows_[sum.flow];
    kernel->counts.requests += flow.reads.size();
    kernel->counts.doorbells += sum.doorbells;
    flow.done = flow.reads.empty();
    if (flow.done) continue;
    launch.flows.push_back({sum.flow, sum.on_fullest_qp, sum.doorbells, sum.first_ring,
                            sum.last_ring - sum.first_ring});
  }
  std::ranges::stable_sort(launch.flows, {}, &FlowLaunch::Part::first_ring);
  stats_.requests += kernel->counts.requests;
  const model::GpuProfile& gpu = options_.fabric.profile.gpu;
  if (!launch.flows.empty()) {
    const sim::Picos first = launch.begin + launch.flows.front().first_ring;
    fabric_->at(first, make_tag(TagKind::flow, flow_launches_.take(std::move(launch))));
  }
  end_kernel(rank, kernel, sim::Picos(gpu.kernel_launch + gpu.kernel_drain) + longest);
}

/// Those whose first doorbell rings now; the launch comes again for the next.
void SimExecutor::start_flows(std::uint32_t index) {
  FlowLaunch& launch = flow_launches_[index];
  for (; launch.next < launch.flows.size(); ++launch.next) {
    const FlowLaunch::Part& part = launch.flows[launch.next];
    if (launch.begin + part.first_ring > engine_->now()) {
      return fabric_->at(launch.begin + part.first_ring, make_tag(TagKind::flow, index));
    }
    if (!start_flow(launch, part)) return;
  }
  launch = {};
  flow_launches_.give_back(index);
}

bool SimExecutor::start_flow(const FlowLaunch& launch, const FlowLaunch::Part& part) {
  const std::uint32_t planes = options_.fabric.topology.num_planes();
  const Flow& flow = flows_[part.flow];
  const std::uint64_t count = flow.reads.size();
  sim::FlowRequest request;
  request.local = launch.rank;
  request.remote = flow.peer;
  request.remote_memory = storage_memory();
  request.count = count;
  request.bytes_each = (flow.bytes + count - 1) / count;
  request.qps = (launch.qps + planes - 1 - flow.plane) / planes;
  request.plane = flow.plane;
  request.depth = queue_shape_ ? queue_shape_->depth : core::QueueShape{}.depth;
  request.service_level = options_.service_level;
  request.most_on_one_qp = part.most_on_one_qp;
  request.doorbells = part.doorbells;
  request.issued_over = part.issued_over;
  request.tag = make_tag(TagKind::flow, part.flow);
  const auto started = fabric_->bulk_flow(request);
  if (started) return true;
  if (!has_fatal_) fatal_ = started.error();
  has_fatal_ = true;
  engine_->stop(started.error());
  return false;
}

void SimExecutor::flow_access(std::uint32_t index, const sim::Request& request) {
  Flow& flow = flows_[index];
  note(2, index, flow.next);
  Posted op;
  for (std::uint32_t i = 0; i < request.count && flow.next < flow.reads.size(); ++i) {
    const FlowRead& read = flow.reads[flow.next++];
    op.src_or_value = read.src_offset;
    op.dst_or_signal = read.dst_offset;
    op.bytes = read.bytes;
    deliver_row(flow.rank, flow.peer, op);
  }
}

}  // namespace engram::sim_backend
