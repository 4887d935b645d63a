// Flows that congestion control holds back before their port, and the turns they get there.
#include <algorithm>
#include <utility>

#include "network.hpp"

namespace engram::sim {
namespace {

/// Bytes of a sender's port and lane above which a controlled flow waits its turn: a few
/// packets, so that the port never runs dry.
constexpr std::uint64_t kBacklog = 16 * 1024;

}  // namespace

void Network::wait_for_pace(std::uint32_t flow, std::uint32_t index) {
  Paced& paced = paced_[flow];
  if (paced.queue.first == kNone) {
    paced.queue.first = index;
  } else {
    packets_[paced.queue.last].next = index;
  }
  paced.queue.last = index;
  if (paced.scheduled || paced.waits) return;
  paced.scheduled = true;
  context_.push(std::max(context_.now, paced.next), EventKind::paced, flow);
}

// Its pace allows the next packet; the port may not. Flows that wait for room get it in turn.
void Network::on_paced(std::uint32_t flow) {
  Paced& paced = paced_[flow];
  paced.scheduled = false;
  const std::uint32_t source = congestion_.source(flow);
  const std::uint8_t lane = packets_[paced.queue.first].lane;
  if (has_room(source, lane)) return release(flow);
  Queue& waiters = lanes_[only_out_[source] * num_lanes_ + lane].waiters;
  if (waiters.first == kNone) {
    waiters.first = flow;
  } else {
    paced_[waiters.last].next_waiter = flow;
  }
  waiters.last = flow;
  paced.waits = true;
}

void Network::release(std::uint32_t flow) {
  Paced& paced = paced_[flow];
  const std::uint32_t index = paced.queue.first;
  paced.queue.first = packets_[index].next;
  packets_[index].next = kNone;
  paced.next = context_.now + congestion_.pace(flow, packets_[index].bytes);
  paced.scheduled = paced.queue.first != kNone;
  if (paced.scheduled) context_.push(paced.next, EventKind::paced, flow);
  packets_[index].tail = std::max(packets_[index].tail, context_.now);
  enter(congestion_.source(flow), index);
}

void Network::release_waiters(Lane& lane, bool all) {
  while (lane.waiters.first != kNone && (all || lane.queued <= kBacklog)) {
    const std::uint32_t flow = lane.waiters.first;
    lane.waiters.first = std::exchange(paced_[flow].next_waiter, kNone);
    paced_[flow].waits = false;
    release(flow);
  }
}

bool Network::has_room(std::uint32_t vertex, std::uint8_t lane) const {
  const std::uint32_t link = only_out_[vertex];
  if (link == kNone) return true;
  const Lane& port = lanes_[link * num_lanes_ + lane];
  return port.waiters.first == kNone && port.queued <= kBacklog;
}

bool Network::backlogged(std::uint32_t source, std::uint8_t lane, std::uint64_t key) const {
  if (!congestion_.on()) return false;
  const auto flow = congestion_.find(key);
  return flow ? paced_[*flow].queue.first != kNone : !has_room(source, lane);
}

}  // namespace engram::sim
