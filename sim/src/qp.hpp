// Queue pairs: slots, counters, and completions in order.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "context.hpp"
#include "flow_pace.hpp"

namespace engram::sim {

struct RequestNode {
  Request request;
  std::uint32_t next = kNone;  ///< the one posted after it on the same QP
  std::uint32_t flow = kNone;
  std::uint8_t holders = 1;  ///< the QP, and a train whose write is not yet seen
  bool done = false, delivered = false;
  Status status = Status::ok;
};

struct Qp {
  Rank local, remote;
  QpIndex index;
  QpOptions options;
  QpCounters counters;
  // The NIC's view: 16-bit indices that wrap.
  std::uint16_t nic_producer = 0, nic_consumer = 0;
  std::uint8_t lane = 0;
  bool background = false;  // nobody is told of its requests
  bool ready = false, waits_for_rate = false, failed = false, broken = false, told_full = false;
  std::uint32_t oldest = kNone, to_start = kNone, newest = kNone;  // nodes
  std::uint32_t outstanding = 0;                                   // reads and adds in flight
  std::uint32_t source = 0, target = 0;                            // vertices
  std::uint32_t most_outstanding = 0;                              // reads and adds
  std::uint32_t connection = 0;                 // the first; shared with the QP the other way
  std::uint32_t connections = 1, turn = 0;      // of the QPs it stands for, and whose turn it is
  std::uint32_t pace = kNone;                   // of a flow
  std::uint64_t hash_there = 0, hash_back = 0;  // of its flows, for ECMP
  Picos next_start{0}, last_doorbell{0}, last_inject{0}, last_memory{0}, last_visible{0},
      last_complete{0};

  [[nodiscard]] std::uint32_t nic_pending() const {
    return static_cast<std::uint16_t>(nic_producer - nic_consumer);
  }
  [[nodiscard]] bool is_flow() const { return pace != kNone; }
};

/// What the NICs at both ends keep of a QP, whoever asks whom.
struct Connection {
  std::uint32_t slots[2] = {0, 0};  ///< in the caches of the lower and the higher rank
};

class QpTable {
 public:
  explicit QpTable(Context& context) : context_(context) {}

  [[nodiscard]] Result<std::uint32_t> open(Rank local, QpIndex index, Rank remote,
                                           const QpOptions& options);
  [[nodiscard]] bool has_slot(std::uint32_t qp);
  /// Answers the new node.
  std::uint32_t post(std::uint32_t qp, const Request& request);
  /// Marks nodes [first, first + count) done and delivers what may be delivered. Answers through
  /// the client; `flow_done(flow)` is called for each node of a flow.
  template <class FlowDone>
  void complete(std::uint32_t qp, std::uint32_t first, std::uint32_t count, Status status,
                FlowDone&& flow_done);
  void let_go(std::uint32_t node) {
    if (--nodes_[node].holders == 0) nodes_.free(node);
  }
  void describe_pending(std::string& text) const;

  Qp& operator[](std::uint32_t qp) { return qps_[qp]; }
  const Qp& operator[](std::uint32_t qp) const { return qps_[qp]; }
  /// Where a connection of `qp` was in the cache of `rank`, one of its ends.
  std::uint32_t& cache_slot(const Qp& queue, std::uint32_t connection, Rank rank) {
    const Rank other = rank == queue.local ? queue.remote : queue.local;
    return connections_[connection].slots[rank < other ? 0 : 1];
  }
  FlowPace& pace(const Qp& queue) { return paces_[queue.pace]; }
  /// For ECMP, there and back; of a flow, those of the QP `turn` among its own.
  struct Hashes {
    std::uint64_t there = 0, back = 0;
  };
  [[nodiscard]] Hashes hashes(const Qp& queue, std::uint32_t turn) const;
  RequestNode& node(std::uint32_t index) { return nodes_[index]; }
  [[nodiscard]] const Pool<RequestNode>& nodes() const { return nodes_; }
  void fetch(std::uint32_t qp) const { qps_.fetch(qp); }
  void fetch_connection(std::uint32_t qp) const { connections_.fetch(qps_[qp].connection); }
  [[nodiscard]] std::uint32_t size() const { return qps_.size(); }

 private:
  struct Key {
    std::uint64_t ranks;
    std::uint32_t index;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return Chance::mix(key.ranks * 0x9E3779B97F4A7C15ull + key.index);
    }
  };

  template <class FlowDone>
  void deliver(std::uint32_t qp, std::uint32_t node, FlowDone&& flow_done);

  Context& context_;
  Pool<Qp> qps_;
  Pool<RequestNode> nodes_;
  Pool<Connection> connections_;
  Pool<FlowPace> paces_;
  std::unordered_map<Key, std::uint32_t, KeyHash> by_name_;
  std::unordered_map<std::uint32_t, std::uint32_t> opened_;  // rank -> QPs that start there
};

template <class FlowDone>
void QpTable::complete(std::uint32_t qp, std::uint32_t first, std::uint32_t count, Status status,
                       FlowDone&& flow_done) {
  const bool ordered = context_.options.profile.nic.ordered_completions;
  std::uint32_t node = first;
  for (std::uint32_t i = 0; i < count; ++i) {
    RequestNode& done = nodes_[node];
    done.done = true;
    done.status = status;
    const std::uint32_t next = done.next;
    if (!ordered) deliver(qp, node, flow_done);
    node = next;
  }
  Qp& queue = qps_[qp];
  while (queue.oldest != kNone && nodes_[queue.oldest].done) {
    const std::uint32_t oldest = queue.oldest;
    queue.oldest = nodes_[oldest].next;
    if (queue.oldest == kNone) queue.newest = kNone;
    if (!nodes_[oldest].delivered) deliver(qp, oldest, flow_done);
    let_go(oldest);
  }
}

template <class FlowDone>
void QpTable::deliver(std::uint32_t qp, std::uint32_t node, FlowDone&& flow_done) {
  RequestNode& done = nodes_[node];
  done.delivered = true;
  // After its first error a QP has no good completion, though the bytes may have moved.
  if (qps_[qp].broken) done.status = Status::error;
  if (done.status == Status::error) qps_[qp].broken = true;
  ++qps_[qp].counters.completed;
  if (qps_[qp].background) return;
  --context_.in_flight;
  context_.client.completed(QpId{qp}, done.request, done.status);
  if (done.flow != kNone) flow_done(done.flow);
  if (qps_[qp].told_full) {
    qps_[qp].told_full = false;
    context_.client.slot_freed(QpId{qp});
  }
}

}  // namespace engram::sim
