#include "qp.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engram/model/ecmp.hpp"

namespace engram::sim {
namespace {

constexpr std::uint32_t kListed = 8;  // QPs of a report

}  // namespace

Result<std::uint32_t> QpTable::open(Rank local, QpIndex index, Rank remote,
                                    const QpOptions& options) {
  const model::Profile& profile = context_.options.profile;
  const model::Topology& topology = context_.options.topology;
  const Key key{(std::uint64_t{local.value} << 32) | remote.value, index.value};
  if (const auto known = by_name_.find(key); known != by_name_.end()) return known->second;

  for (const Rank rank : {local, remote}) {
    if (rank.value >= topology.num_ranks()) {
      return fail(ErrorCode::out_of_range, "QP ", index.value, " of rank ", local.value,
                  " to rank ", remote.value, ": rank ", rank.value,
                  " has no NIC; the topology has ", topology.num_ranks(), " ranks");
    }
  }
  Qp opened;
  opened.local = local;
  opened.remote = remote;
  opened.index = index;
  opened.options = options;
  if (opened.options.depth == 0) opened.options.depth = profile.nic.queue_depth;
  if (opened.options.outstanding_reads == 0) {
    opened.options.outstanding_reads = std::max(1u, profile.nic.outstanding_reads);
  }
  if (opened.options.depth == 0 || opened.options.depth > profile.nic.max_queue_depth) {
    return fail(ErrorCode::invalid_argument, "QP depth ", opened.options.depth, ": profile \"",
                profile.name, "\" accepts 1 to ", profile.nic.max_queue_depth);
  }
  opened.lane = context_.options.lanes.lane(options.service_level);
  if (opened.lane == Lanes::kNoLane) {
    return fail(ErrorCode::invalid_argument, "service level ", options.service_level,
                " of a QP is mapped to no virtual lane");
  }
  if (opened_[local.value] >= profile.nic.max_qps) {
    return fail(ErrorCode::invalid_argument, "rank ", local.value, " opens more than ",
                profile.nic.max_qps, " QPs, all that its NIC holds (profile \"", profile.name,
                "\")");
  }
  ++opened_[local.value];

  const std::uint32_t planes = topology.num_planes();
  const bool is_flow = options.stands_for > 0;
  opened.connections = std::max(1u, options.stands_for);
  opened.most_outstanding = opened.options.outstanding_reads * opened.connections;
  if (is_flow) opened.pace = paces_.make();
  const std::uint32_t own_plane = is_flow ? options.plane : index.value;
  for (std::uint32_t i = 0; i < planes; ++i) {  // the QP's own plane, else the next that both have
    const std::uint32_t plane = (own_plane + i) % planes;
    const auto from = topology.nic(local, plane), to = topology.nic(remote, plane);
    if (!from.has_value() || !to.has_value()) continue;
    opened.source = from->value;
    opened.target = to->value;
    opened.hash_there = model::flow_hash({local, remote, index, plane}, context_.options.ecmp_seed);
    opened.hash_back = model::flow_hash({remote, local, index, plane}, context_.options.ecmp_seed);
    break;
  }
  const Key reverse{(std::uint64_t{remote.value} << 32) | local.value, index.value};
  const auto other_way = by_name_.find(reverse);
  if (other_way != by_name_.end() && qps_[other_way->second].connections == opened.connections) {
    opened.connection = qps_[other_way->second].connection;
  } else {
    opened.connection = connections_.size();  // none is ever freed, so these are neighbours
    for (std::uint32_t i = 0; i < opened.connections; ++i) (void)connections_.make();
  }
  const std::uint64_t first = context_.options.first_request;
  opened.counters = {first, first, first};
  opened.nic_producer = opened.nic_consumer = static_cast<std::uint16_t>(first);

  const std::uint32_t qp = qps_.make();
  qps_[qp] = opened;
  by_name_.emplace(key, qp);
  return qp;
}

QpTable::Hashes QpTable::hashes(const Qp& queue, std::uint32_t turn) const {
  if (!queue.is_flow()) return {queue.hash_there, queue.hash_back};
  const std::uint32_t planes = context_.options.topology.num_planes();
  const QpIndex index{queue.options.plane + turn * planes};
  const std::uint32_t plane = queue.options.plane;
  const std::uint64_t seed = context_.options.ecmp_seed;
  return {model::flow_hash({queue.local, queue.remote, index, plane}, seed),
          model::flow_hash({queue.remote, queue.local, index, plane}, seed)};
}

bool QpTable::has_slot(std::uint32_t qp) {
  Qp& queue = qps_[qp];
  const bool free = queue.counters.posted - queue.counters.completed < queue.options.depth;
  if (!free) queue.told_full = true;
  return free;
}

std::uint32_t QpTable::post(std::uint32_t qp, const Request& request) {
  Qp& queue = qps_[qp];
  require(queue.counters.posted - queue.counters.completed < queue.options.depth,
          "a request needs a free slot of its QP");
  const std::uint32_t node = nodes_.make();
  nodes_[node].request = request;
  if (queue.newest != kNone) nodes_[queue.newest].next = node;
  if (queue.oldest == kNone) queue.oldest = node;
  if (queue.to_start == kNone) queue.to_start = node;
  queue.newest = node;
  ++queue.counters.posted;
  return node;
}

void QpTable::describe_pending(std::string& text) const {
  std::uint32_t listed = 0;
  for (std::uint32_t qp = 0; qp < qps_.size() && listed < kListed; ++qp) {
    const Qp& queue = qps_[qp];
    const QpCounters& n = queue.counters;
    if (n.posted == n.completed) continue;
    ++listed;
    fmt::format_to(std::back_inserter(text),
                   "{}rank {} QP {} to rank {}: {} posted and not rung, {} rung and not completed",
                   listed == 1 ? "" : ", ", queue.local.value, queue.index.value,
                   queue.remote.value, n.posted - n.rung, n.rung - n.completed);
  }
}

}  // namespace engram::sim
