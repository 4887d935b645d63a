#include <algorithm>

#include "nic.hpp"

namespace engram::sim {

NicCosts::NicCosts(const model::Profile& p)
    : read(interval(p.nic.read_rate)),
      write(interval(p.nic.write_rate)),
      atomic(interval(p.nic.atomic_rate)),
      serve(interval(p.nic.responder_rate)),
      receive(interval(p.nic.receive_rate)),
      qp(interval(p.nic.qp_rate)),
      doorbell(interval(p.nic.doorbell_rate)),
      requester_miss(p.nic.cache.requester_miss),
      responder_miss(p.nic.cache.responder_miss),
      request_latency(p.nic.request_latency),
      response_latency(p.nic.response_latency),
      completion_latency(p.nic.completion_latency),
      read_latency(p.nic.read_latency),
      write_latency(p.nic.write_latency),
      atomic_latency(p.nic.atomic_latency),
      gpu_latency(p.pcie.gpu_latency),
      host_latency(p.pcie.host_latency),
      pcie(p.pcie.rate) {}

Picos NicCosts::start(RequestKind kind) const {
  switch (kind) {
    case RequestKind::read:
      return read;
    case RequestKind::atomic_add:
      return atomic;
    case RequestKind::write:
    case RequestKind::write_inline:
      return write;
  }
  return read;
}

NicState::NicState(Context& c, QpTable& q, Network& n, FaultState& f)
    : context(c),
      qps(q),
      network(n),
      faults(f),
      profile(c.options.profile),
      costs(c.options.profile),
      segment(segment_bytes(c.options)),
      nics(c.options.topology.num_ranks()) {}

std::uint64_t NicState::request_overhead(const Train& train) const {
  if (train.holds_reads) return std::uint64_t{train.requests} * profile.nic.request_bytes;
  return train.packets * profile.nic.header_bytes;
}

std::uint64_t NicState::answer_overhead(const Train& train) const {
  return (train.holds_reads ? train.packets : 1) * profile.nic.header_bytes;
}

std::uint32_t NicState::misses(Rank rank, const Train& train, bool responder) {
  const std::uint32_t capacity = profile.nic.cache.capacity;
  if (capacity == 0) return 0;
  Nic& nic = nics[rank.value];
  const Qp& queue = qps[train.qp];
  const std::uint32_t touched = std::min(queue.connections, train.requests);
  std::uint32_t missed = 0;
  for (std::uint32_t i = 0; i < touched; ++i) {
    const std::uint32_t connection = queue.connection + (train.turn + i) % queue.connections;
    std::uint32_t& slot = qps.cache_slot(queue, connection, rank);
    missed += !nic.cache.touch(connection, slot, capacity, context.chance);
  }
  if (missed == 0) return 0;
  missed = static_cast<std::uint32_t>(std::uint64_t{missed} * train.requests / touched);
  (responder ? nic.counters.responder_misses : nic.counters.requester_misses) += missed;
  return missed;
}

void NicState::lost(std::uint32_t index, std::uint32_t generation, std::uint32_t fault) {
  if (index == kNone) return;  // background
  Train& train = trains[index];
  if (train.generation != generation || train.lost) return;
  train.lost = true;
  note_loss(train.qp, fault);
  context.push(context.now + context.options.faults.retransmit_timeout, EventKind::retry, index,
               generation);
}

Picos Responder::take_request(std::uint32_t index, const Packet& packet) {
  Train& train = s_.trains[index];
  if (!train.holds_reads) return take_write(index, packet);
  serve(index, packet.tail);
  return s_.context.now;
}

// Reads or adds: engine, latency, memory; the answer leaves as the bytes come. Of a train the first
// is served when it is here, not when the last is.
void Responder::serve(std::uint32_t index, Picos arrived) {
  Train& train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  Nic& nic = s_.nics[queue.remote.value];
  Context& c = s_.context;
  const bool is_read = train.kind == RequestKind::read;
  const std::uint32_t missed = s_.misses(queue.remote, train, true);
  const Picos miss = missed > 0 ? s_.costs.responder_miss : Picos{0};
  const Picos each = s_.faults.slowed(queue.remote, is_read ? s_.costs.serve : s_.costs.atomic);
  const Picos first = c.now + (arrived - c.now) / train.requests;
  const Picos begin = std::max(first, nic.responder_free);
  const Picos held = each * train.requests + s_.costs.responder_miss * missed;
  nic.responder_free = begin + held;
  nic.counters.responder_busy += held;
  nic.counters.served += train.requests;
  if (c.observer != nullptr) {
    c.observer->span({Track::Kind::nic_responder, queue.remote.value, 0}, name_of(train.kind),
                     begin, nic.responder_free, index);
  }
  const Picos extra = is_read ? s_.costs.read_latency : s_.costs.atomic_latency;
  const Picos ready =
      begin + miss + s_.faults.slowed(queue.remote, s_.costs.response_latency + extra);
  const Picos moving = s_.faults.slowed(queue.remote, s_.costs.pcie(train.payload));
  const Picos pcie = std::max(ready, nic.pcie_read_free);
  nic.pcie_read_free = pcie + moving;
  nic.counters.pcie_read_busy += moving;
  Picos at = pcie + s_.costs.memory_latency(train.remote_memory);
  // A read or an add follows the writes of its QP: it does not pass one that is not yet seen.
  queue.last_memory = at = std::max({at, queue.last_memory, queue.last_visible});
  // The last comes out when all have been served and moved, and not before it was here.
  train.tail = at + std::max({moving, held - each - miss, arrived - begin});
  c.push(at, EventKind::memory, index, train.generation);
}

void Responder::on_memory(std::uint32_t index, std::uint32_t generation) {
  Train& train = s_.trains[index];
  if (train.generation != generation) return;
  if (!train.executed || train.kind == RequestKind::read) access(train);
  train.executed = true;
  answer(index, train.payload, train.tail);
}

// A part of a write: the engine that also starts requests takes it in, then PCIe.
Picos Responder::take_write(std::uint32_t index, const Packet& packet) {
  Train& train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  Nic& nic = s_.nics[queue.remote.value];
  Context& c = s_.context;
  Picos begin = c.now;
  if (train.arrived == 0) {
    const std::uint32_t missed = s_.misses(queue.remote, train, true);
    const Picos miss = missed > 0 ? s_.costs.responder_miss : Picos{0};
    const Picos held = s_.faults.slowed(queue.remote, s_.costs.receive * train.requests) +
                       s_.costs.responder_miss * missed;
    if (held > Picos{0}) {
      begin = std::max(c.now, nic.engine_free) + miss;
      nic.engine_free = begin - miss + held;
      nic.counters.engine_busy += held;
    }
    nic.counters.received += train.requests;
  }
  const Picos moving = s_.faults.slowed(queue.remote, s_.costs.pcie(packet.payload));
  begin = std::max(begin, nic.pcie_write_free);
  nic.pcie_write_free = begin + moving;
  nic.counters.pcie_write_busy += moving;
  train.tail = std::max({train.tail, begin + moving, packet.tail});
  train.arrived += packet.payload;
  if (train.arrived < train.expected) return begin;

  const Picos ack = train.tail + s_.faults.slowed(queue.remote, s_.costs.response_latency);
  queue.last_memory = std::max(queue.last_memory, ack);
  c.push(queue.last_memory, EventKind::acknowledge, index, train.generation);
  if (!train.executed) {
    train.executed = true;
    ++train.holders;
    std::uint32_t node = train.first;
    for (std::uint32_t i = 0; i < train.count; ++i) {
      ++s_.qps.node(node).holders;
      node = s_.qps.node(node).next;
    }
    const Picos late = s_.faults.visibility_delay(queue.remote) +
                       c.chance.up_to(c.options.perturbation.visibility);
    // As profile.hpp says: what the response takes, then write_latency until a poll sees it.
    const Picos seen = train.tail + s_.faults.slowed(queue.remote, s_.costs.response_latency) +
                       s_.costs.write_latency + late;
    queue.last_visible = std::max(queue.last_visible, seen);
    c.push(queue.last_visible, EventKind::visible, index);
  }
  return begin;
}

void Responder::on_visible(std::uint32_t index) {
  Train& train = s_.trains[index];
  access(train);
  std::uint32_t node = train.first;
  for (std::uint32_t i = 0; i < train.count; ++i) {
    const std::uint32_t next = s_.qps.node(node).next;
    s_.qps.let_go(node);
    node = next;
  }
  s_.let_go(index);
}

void Responder::on_acknowledge(std::uint32_t index, std::uint32_t generation) {
  if (s_.trains[index].generation != generation) return;
  answer(index, 0, s_.context.now);
}

void Responder::access(Train& train) {
  if (s_.qps[train.qp].background) return;
  std::uint32_t node = train.first;
  for (std::uint32_t i = 0; i < train.count; ++i) {
    RequestNode& each = s_.qps.node(node);
    s_.context.client.remote_access(QpId{train.qp}, each.request);
    node = each.next;
  }
}

void Responder::answer(std::uint32_t index, std::uint64_t payload, Picos last_byte) {
  Train& train = s_.trains[index];
  const Qp& queue = s_.qps[train.qp];
  if (s_.faults.dead(queue.remote)) {
    return s_.lost(index, train.generation, s_.faults.killer(queue.remote));
  }
  train.expected = payload;
  train.arrived = 0;
  train.tail = Picos{0};
  s_.network.send({.kind = PacketKind::response,
                   .train = index,
                   .generation = train.generation,
                   .source = queue.target,
                   .target = queue.source,
                   .hash = s_.qps.hashes(queue, train.turn).back + train.attempts,
                   .lane = queue.lane,
                   .payload = payload,
                   .overhead = s_.answer_overhead(train),
                   .segment = s_.segment,
                   .flow = payload > 0 ? data_flow(train.qp, false) : kUncontrolled,
                   .last_byte = last_byte});
}

}  // namespace engram::sim
