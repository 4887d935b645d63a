// The one list of a profile's keys; loading, overriding and printing walk over it.
#pragma once

#include "engram/model/profile.hpp"

namespace engram::model {

/// Calls `visit(key, member)` for every number of `profile` (const or not), in header order.
template <class AnyProfile, class Visit>
void for_each_field(AnyProfile& p, Visit&& visit) {
  visit("gpu.sms", p.gpu.sms);
  visit("gpu.warps_per_block", p.gpu.warps_per_block);
  visit("gpu.kernel_launch", p.gpu.kernel_launch);
  visit("gpu.kernel_drain", p.gpu.kernel_drain);

  visit("issue.build", p.issue.build);
  visit("issue.doorbell", p.issue.doorbell);
  visit("issue.first", p.issue.first);
  visit("issue.shared_lock", p.issue.shared_lock);
  visit("issue.block_lock", p.issue.block_lock);
  visit("issue.warp_parallel", p.issue.warp_parallel);

  visit("nic.port", p.nic.port);
  visit("nic.ports", p.nic.ports);
  visit("nic.read_rate", p.nic.read_rate);
  visit("nic.write_rate", p.nic.write_rate);
  visit("nic.atomic_rate", p.nic.atomic_rate);
  visit("nic.responder_rate", p.nic.responder_rate);
  visit("nic.receive_rate", p.nic.receive_rate);
  visit("nic.qp_rate", p.nic.qp_rate);
  visit("nic.doorbell_rate", p.nic.doorbell_rate);
  visit("nic.outstanding_reads", p.nic.outstanding_reads);
  visit("nic.queue_depth", p.nic.queue_depth);
  visit("nic.max_queue_depth", p.nic.max_queue_depth);
  visit("nic.max_qps", p.nic.max_qps);
  visit("nic.request_latency", p.nic.request_latency);
  visit("nic.response_latency", p.nic.response_latency);
  visit("nic.completion_latency", p.nic.completion_latency);
  visit("nic.read_latency", p.nic.read_latency);
  visit("nic.write_latency", p.nic.write_latency);
  visit("nic.atomic_latency", p.nic.atomic_latency);
  visit("nic.header_bytes", p.nic.header_bytes);
  visit("nic.request_bytes", p.nic.request_bytes);
  visit("nic.flush_rings", p.nic.flush_rings);
  visit("nic.ordered_completions", p.nic.ordered_completions);
  visit("nic.cache.capacity", p.nic.cache.capacity);
  visit("nic.cache.requester_miss", p.nic.cache.requester_miss);
  visit("nic.cache.responder_miss", p.nic.cache.responder_miss);

  visit("pcie.rate", p.pcie.rate);
  visit("pcie.gpu_latency", p.pcie.gpu_latency);
  visit("pcie.host_latency", p.pcie.host_latency);

  visit("nvlink.raw", p.nvlink.raw);
  visit("nvlink.load_payload", p.nvlink.load_payload);
  visit("nvlink.load_header", p.nvlink.load_header);
  visit("nvlink.copy_payload", p.nvlink.copy_payload);
  visit("nvlink.copy_header", p.nvlink.copy_header);
  visit("nvlink.load_latency", p.nvlink.load_latency);
  visit("nvlink.per_sm", p.nvlink.per_sm);
  visit("nvlink.copy_engines", p.nvlink.copy_engines);
  visit("nvlink.copy_launch", p.nvlink.copy_launch);
  visit("nvlink.domain_gpus", p.nvlink.domain_gpus);

  visit("memory.hbm", p.memory.hbm);
  visit("memory.hbm_latency", p.memory.hbm_latency);
  visit("memory.hbm_per_sm", p.memory.hbm_per_sm);
  visit("memory.host_link", p.memory.host_link);
  visit("memory.host_latency", p.memory.host_latency);
  visit("memory.host_reach", p.memory.host_reach);
  visit("memory.host_miss_rate", p.memory.host_miss_rate);

  visit("scope.own_gpu", p.scope.own_gpu);
  visit("scope.domain", p.scope.domain);
  visit("scope.system", p.scope.system);

  visit("network.hop_latency", p.network.hop_latency);
  visit("network.cable_latency", p.network.cable_latency);
  visit("network.buffer_per_lane", p.network.buffer_per_lane);
  visit("network.mtu", p.network.mtu);

  visit("congestion.mark_from", p.congestion.mark_from);
  visit("congestion.mark_full", p.congestion.mark_full);
  visit("congestion.mark_one_in", p.congestion.mark_one_in);
  visit("congestion.gain_one_in", p.congestion.gain_one_in);
  visit("congestion.notify_interval", p.congestion.notify_interval);
  visit("congestion.alpha_interval", p.congestion.alpha_interval);
  visit("congestion.step_interval", p.congestion.step_interval);
  visit("congestion.step_bytes", p.congestion.step_bytes);
  visit("congestion.recovery_steps", p.congestion.recovery_steps);
  visit("congestion.additive_rate", p.congestion.additive_rate);
  visit("congestion.hyper_rate", p.congestion.hyper_rate);
}

}  // namespace engram::model
