#include "network.hpp"

#include <algorithm>

#include "engram/model/ecmp.hpp"

namespace engram::sim {
namespace {

// A batch or a flow moves as few large pieces; still small beside a port's buffer, of which a piece
// takes at most an eighth: fewer would wait for each other's credits as packets do not.
constexpr std::uint64_t kLargeSegment = 16 * 1024;
constexpr std::uint64_t kOfBuffer = 8;

const char* name_of(PacketKind kind) {
  switch (kind) {
    case PacketKind::request:
      return "request";
    case PacketKind::response:
      return "response";
    case PacketKind::background:
      return "background";
  }
  return "";
}

}  // namespace

std::uint64_t segment_bytes(const FabricOptions& options) {
  const std::uint64_t mtu = std::max(1u, options.profile.network.mtu);
  const std::uint64_t buffer = options.profile.network.buffer_per_lane.count;
  const std::uint64_t large =
      buffer == 0 ? kLargeSegment : std::min(kLargeSegment, buffer / kOfBuffer / mtu * mtu);
  switch (options.fidelity) {
    case Fidelity::message:
      return mtu;
    case Fidelity::batch:
    case Fidelity::flow:
      return std::max(mtu, large);
  }
  return mtu;
}

Network::Network(Context& context, PacketSink& sink)
    : context_(context),
      sink_(sink),
      congestion_(context),
      num_lanes_(static_cast<std::uint32_t>(context.options.lanes.weights.size())),
      buffer_(context.options.profile.network.buffer_per_lane.count),
      loop_wire_(context.options.profile.nic.port) {
  const model::Topology& topology = context.options.topology;
  quantum_ = static_cast<std::int64_t>(segment_bytes(context.options) +
                                       context.options.profile.nic.header_bytes);
  only_out_.assign(topology.vertices().size(), kNone);
  only_in_ = only_out_;
  std::vector<std::uint32_t> out(topology.vertices().size()), in(out);
  for (std::uint32_t i = 0; i < topology.links().size(); ++i) {
    const model::Link& link = topology.links()[i];
    Port& port = ports_.emplace_back();
    port.wire = ByteTime(link.rate);
    port.latency = link.latency;
    port.from = link.from.value;
    port.to = link.to.value;
    only_out_[link.from.value] = ++out[link.from.value] == 1 ? i : kNone;
    only_in_[link.to.value] = ++in[link.to.value] == 1 ? i : kNone;
  }
  lanes_.resize(ports_.size() * num_lanes_);
  loop_free_.resize(topology.vertices().size());
}

void Network::send(const Message& message) {
  const std::uint64_t whole = std::max<std::uint64_t>(message.payload, 1);
  const std::uint64_t pieces = (whole + message.segment - 1) / message.segment;
  std::uint64_t payload_left = message.payload, overhead_left = message.overhead;
  std::uint32_t flow = kNone;
  if (congestion_.on() && message.flow != kUncontrolled && message.source != message.target) {
    flow = congestion_.flow(message.flow, message.source, message.target,
                            context_.options.profile.nic.port.value);
    if (flow >= paced_.size()) paced_.resize(flow + 1);
  }
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t left = pieces - i;
    const std::uint64_t payload = std::min(payload_left, message.segment);
    const std::uint64_t overhead = overhead_left / left;
    payload_left -= payload;
    overhead_left -= overhead;
    const std::uint32_t index = packets_.make();
    Packet& packet = packets_[index];
    packet.train = message.train;
    packet.generation = message.generation;
    packet.target = message.target;
    packet.payload = static_cast<std::uint32_t>(payload);
    packet.bytes = static_cast<std::uint32_t>(payload + overhead);
    packet.hash = message.hash;
    packet.flow = flow;
    packet.lane = message.lane;
    packet.kind = message.kind;
    packet.tail = std::max(context_.now, message.last_byte);
    if (left > 1 && message.last_byte > context_.now) {
      packet.tail = context_.now + (message.last_byte - context_.now) *
                                       static_cast<std::int64_t>(i + 1) /
                                       static_cast<std::int64_t>(pieces);
    }
    if (message.source == message.target) {
      loop_back(index, message.source);
      continue;
    }
    // As a NIC does, a flow that is controlled is held back before the port, not in it: what stands
    // in the port can no longer be slowed.
    if (flow != kNone && (paced_[flow].queue.first != kNone || congestion_.limits(flow) ||
                          !has_room(message.source, message.lane))) {
      wait_for_pace(flow, index);
    } else {
      enter(message.source, index);
    }
  }
}

void Network::enter(std::uint32_t vertex, std::uint32_t index) {
  const std::uint32_t link = route(vertex, packets_[index]);
  if (link == kNone) {
    lose(index, blocked_by_);
  } else {
    enqueue(link, index);
  }
}

// Inside one NIC: no link, but its port's pace.
void Network::loop_back(std::uint32_t index, std::uint32_t vertex) {
  Packet& packet = packets_[index];
  const Picos start = std::max(context_.now, loop_free_[vertex]);
  loop_free_[vertex] = start + loop_wire_(packet.bytes);
  packet.tail = std::max(packet.tail, loop_free_[vertex]);
  context_.push(start, EventKind::arrive, index);
}

void Network::enqueue(std::uint32_t link, std::uint32_t index) {
  Port& port = ports_[link];
  if (!usable(link)) return lose(index, link);
  Lane& lane = lanes_[link * num_lanes_ + packets_[index].lane];
  const bool answer = packets_[index].kind == PacketKind::response;
  Queue& queue = lane.queues[answer && packets_[index].link == kNone ? 1 : 0];
  if (queue.first == kNone) {
    queue.first = index;
  } else {
    packets_[queue.last].next = index;
  }
  queue.last = index;
  if (congestion_.on() && packets_[index].flow != kNone && packets_[index].link != kNone &&
      congestion_.mark(lane.queued, context_.chance)) {
    packets_[index].marked = true;
  }
  lane.queued += packets_[index].bytes;
  port.queued += packets_[index].bytes;
  ++port.waiting;
  try_send(link);
  port.counters.most_queued = std::max(port.counters.most_queued, port.queued);
}

void Network::try_send(std::uint32_t link) {
  Port& port = ports_[link];
  if (port.waiting == 0 || !port.up) return;
  if (port.free_at <= context_.now) {
    const int lane = pick_lane(link);
    if (lane < 0) return;  // on_credit tries again
    transmit(link, lanes_[link * num_lanes_ + static_cast<std::uint32_t>(lane)]);
    if (port.waiting == 0) return;
  }
  if (!port.wake_scheduled) {
    port.wake_scheduled = true;
    context_.push(port.free_at, EventKind::port_free, link);
  }
}

void Network::on_port_free(std::uint32_t link) {
  ports_[link].wake_scheduled = false;
  try_send(link);
}

bool Network::may_send(const Lane& lane) const {
  const std::uint32_t head = lane.head();
  if (head == kNone) return false;
  if (buffer_ == 0 || lane.held == 0) return true;  // a packet larger than the buffer goes alone
  return lane.held + packets_[head].bytes <= buffer_;
}

// Deficit round robin: on its turn a lane may send weight x quantum bytes, and what it could not
// use while it had packets stays for its next turn.
int Network::pick_lane(std::uint32_t link) {
  Lane* lanes = &lanes_[link * num_lanes_];
  if (num_lanes_ == 1) return may_send(lanes[0]) ? 0 : -1;
  bool any = false;
  for (std::uint32_t l = 0; l < num_lanes_ && !any; ++l) any = may_send(lanes[l]);
  if (!any) return -1;
  Port& port = ports_[link];
  while (true) {  // a lane that may send gains bytes on each of its turns, so this ends
    Lane& lane = lanes[port.turn];
    if (!may_send(lane)) {
      lane.deficit = 0;
    } else if (lane.deficit >= packets_[lane.head()].bytes) {
      lane.deficit -= packets_[lane.head()].bytes;
      return port.turn;
    }
    port.turn = static_cast<std::uint8_t>((port.turn + 1) % num_lanes_);
    if (lanes[port.turn].head() != kNone) {
      lanes[port.turn].deficit += quantum_ * context_.options.lanes.weights[port.turn];
    }
  }
}

void Network::transmit(std::uint32_t link, Lane& lane) {
  Port& port = ports_[link];
  const std::uint8_t from = lane.next();
  Queue& queue = lane.queues[from];
  const std::uint32_t index = queue.first;
  Packet& packet = packets_[index];
  lane.turn = static_cast<std::uint8_t>(1 - from);
  if (lane.queues[1 - from].first != kNone) {
    lane.ahead += from == 0 ? std::int64_t{packet.bytes} : -std::int64_t{packet.bytes};
  }
  queue.first = packet.next;
  packet.next = kNone;
  lane.queued -= packet.bytes;
  port.queued -= packet.bytes;
  --port.waiting;

  const Picos on_wire = port.wire(packet.bytes);
  port.free_at = context_.now + on_wire;
  port.counters.busy += on_wire;
  port.counters.bytes += packet.bytes;
  ++port.counters.packets;
  if (context_.observer != nullptr) {
    context_.observer->span({Track::Kind::link, 0, link}, name_of(packet.kind), context_.now,
                            port.free_at, packet.train);
  }
  const std::uint32_t buffer =
      packet.link == kNone ? kNone : packet.link * num_lanes_ + packet.lane;
  lane.held += packet.bytes;
  packet.link = link;
  packet.tail = std::max(port.free_at, packet.tail) + port.latency;
  context_.push(context_.now + port.latency, EventKind::arrive, index);
  if (buffer != kNone) on_credit(buffer, packet.bytes);
  if (congestion_.on()) release_waiters(lane, false);
}

void Network::on_credit(std::uint32_t buffer, std::uint64_t bytes) {
  lanes_[buffer].held -= bytes;
  try_send(buffer / num_lanes_);
}

void Network::on_arrive(std::uint32_t index) {
  Packet& packet = packets_[index];
  const std::uint32_t link = packet.link;
  if (link != kNone && !usable(link)) return lose(index, link);
  if (link == kNone || ports_[link].to == packet.target) {
    if (packet.marked && congestion_.notifies(packet.flow)) {
      const Way back = way(congestion_.target(packet.flow), congestion_.source(packet.flow));
      context_.push(context_.now + back.latency, EventKind::notification, packet.flow);
    }
    const Picos free = sink_.deliver(packet);
    if (link != kNone) {
      const std::uint32_t buffer = link * num_lanes_ + packet.lane;
      if (free > context_.now) {
        context_.push(free, EventKind::credit, buffer, packet.bytes);
      } else {
        on_credit(buffer, packet.bytes);
      }
    }
    packets_.free(index);
    return;
  }
  const std::uint32_t next = route(ports_[link].to, packet);
  if (next == kNone) return lose(index, blocked_by_);
  enqueue(next, index);
}

void Network::lose(std::uint32_t index, std::uint32_t link) {
  const Packet packet = packets_[index];
  packets_.free(index);
  sink_.lost(packet, link == kNone ? kNone : ports_[link].down_by);
  if (packet.link != kNone) on_credit(packet.link * num_lanes_ + packet.lane, packet.bytes);
}

std::uint32_t Network::route(std::uint32_t at, const Packet& packet) {
  if (only_out_[at] != kNone) return usable(only_out_[at]) ? only_out_[at] : kNone;
  const std::uint32_t last = only_in_[packet.target];
  if (last != kNone && ports_[last].from == at) return usable(last) ? last : kNone;
  const auto hops = context_.options.topology.next_hops(model::VertexIndex{at},
                                                        model::VertexIndex{packet.target});
  const auto count = static_cast<std::uint32_t>(hops.size());
  if (count == 1) return usable(hops[0].value) ? hops[0].value : kNone;
  if (count == 0) return kNone;
  const std::uint32_t first = model::ecmp_choice(packet.hash, model::VertexIndex{at}, count);
  std::uint32_t best = kNone;
  Picos least = Picos::max();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t link = hops[(first + i) % count].value;
    const Port& port = ports_[link];
    if (!usable(link)) continue;
    if (context_.options.routing == Routing::ecmp) return link;
    if (num_down_ > 0 && !leads_on(link, packet.target)) continue;
    const Picos busy = std::max(Picos{0}, port.free_at - context_.now) + port.wire(port.queued);
    if (busy < least) {
      least = busy;
      best = link;
    }
  }
  return best;
}

// Switches tell one another which ways are gone (NVIDIA calls it fault routing notification);
// adaptive routing heeds it, a hash does not.
bool Network::leads_on(std::uint32_t link, std::uint32_t target) {
  if (ports_[link].to == target) return true;
  const auto hops = context_.options.topology.next_hops(model::VertexIndex{ports_[link].to},
                                                        model::VertexIndex{target});
  return std::ranges::any_of(hops, [&](model::LinkIndex next) {
    return usable(next.value) && leads_on(next.value, target);
  });
}

void Network::set_link(std::uint32_t link, bool up, std::uint32_t fault) {
  if (ports_[link].up != up) num_down_ += up ? -1 : 1;
  ports_[link].up = up;
  ports_[link].down_by = fault;
  if (up) return try_send(link);
  for (std::uint32_t l = 0; l < num_lanes_; ++l) {
    Lane& lane = lanes_[link * num_lanes_ + l];
    while (lane.head() != kNone) {
      Queue& queue = lane.queues[lane.next()];
      const std::uint32_t index = queue.first;
      queue.first = packets_[index].next;
      lane.queued -= packets_[index].bytes;
      ports_[link].queued -= packets_[index].bytes;
      --ports_[link].waiting;
      ++ports_[link].missed;
      lose(index, link);
    }
    release_waiters(lane, true);  // to be lost as well
  }
}

Network::Way Network::way(std::uint32_t source, std::uint32_t target) const {
  Way way{.latency = Picos{0}, .slowest = loop_wire_};
  double slowest = 0;
  for (std::uint32_t at = source; at != target;) {
    const auto hops =
        context_.options.topology.next_hops(model::VertexIndex{at}, model::VertexIndex{target});
    if (hops.empty()) break;
    const model::Link& link = context_.options.topology.links()[hops[0].value];
    way.latency += link.latency;
    if (slowest == 0 || link.rate.value < slowest) slowest = link.rate.value;
    at = link.to.value;
  }
  if (slowest > 0) way.slowest = ByteTime(BytesPerSecond{slowest});
  return way;
}

}  // namespace engram::sim
