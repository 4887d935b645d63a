// Fidelity flow: the gets of a launch, added up by peer, travel as one flow each.
#include <algorithm>

#include "executor.hpp"

namespace engram::sim_backend {

void SimExecutor::launch_as_flows(Rank rank, const std::shared_ptr<host::Kernel>& kernel) {
  // The protocol runs as it is, only without a clock: what it would post is added up.
  std::unordered_map<std::uint32_t, std::uint32_t> of_peer;
  sim::Picos longest{0};
  for (host::Warp& warp : kernel->warps) {
    sim::Picos spent{0};
    for (host::Op* op = warp.head(); op != nullptr; op = warp.head()) {
      require(op->kind == host::OpKind::get || op->kind == host::OpKind::flush_async,
              "an issue kernel gets and flushes");
      const auto [at, is_new] =
          of_peer.try_emplace(op->peer.value, static_cast<std::uint32_t>(flows_.size()));
      if (is_new) {
        Flow& flow = flows_.emplace_back();
        flow.rank = rank;
        flow.peer = op->peer;
      }
      if (op->kind == host::OpKind::get) {
        spent += issue_cost(*kernel, *op);
        ++kernel->counts.requests;
        kernel->counts.doorbells += op->ring == core::Ring::now ? 1 : 0;
        flows_[at->second].ops.push_back(posted_of(rank, *op));
      } else {
        op->slot->queue = kFlowBit | at->second;
      }
      warp.pop();
    }
    longest = std::max(longest, spent);
  }
  for (const auto& [peer, index] : of_peer) {
    Flow& flow = flows_[index];
    flow.done = flow.ops.empty();
    if (flow.done) continue;
    sim::FlowRequest request;
    request.local = rank;
    request.remote = flow.peer;
    request.remote_memory = storage_memory();
    request.count = flow.ops.size();
    request.bytes_each = flow.ops.front().bytes;
    request.qps = kernel->blocks;
    request.service_level = options_.service_level;
    request.tag = make_tag(TagKind::flow, index);
    stats_.requests += request.count;
    if (auto started = fabric_->bulk_flow(request); !started) {
      fatal_ = started.error();
      has_fatal_ = true;
      engine_->stop(started.error());
    }
  }
  const model::GpuProfile& gpu = options_.fabric.profile.gpu;
  end_kernel(rank, kernel, sim::Picos(gpu.kernel_launch + gpu.kernel_drain) + longest);
}

void SimExecutor::flow_access(Flow& flow, const sim::Request& request) {
  for (std::uint32_t i = 0; i < request.count && flow.next < flow.ops.size(); ++i) {
    deliver_row(flow.rank, flow.peer, flow.ops[flow.next++]);
  }
}

}  // namespace engram::sim_backend
