#include <algorithm>

#include "nic.hpp"

namespace engram::sim {
namespace {

// Requests of one train at most, beside a quarter of what the QP may have in flight: with four on
// the way the wire never waits for the first to come back whole. A flow was cut into trains before.
constexpr std::uint32_t kTrainWrites = 32;

std::uint32_t most_in_train(const Qp& queue, Fidelity fidelity, bool holds_reads) {
  if (fidelity == Fidelity::message || queue.is_flow()) return 1;
  return holds_reads ? std::max(1u, queue.most_outstanding / 4) : kTrainWrites;
}

bool holds_reads(RequestKind kind) {
  return kind == RequestKind::read || kind == RequestKind::atomic_add;
}

}  // namespace

void Requester::ring(std::uint32_t qp) {
  Qp& queue = s_.qps[qp];
  Nic& nic = s_.nics[queue.local.value];
  Context& c = s_.context;
  ++nic.counters.doorbells;
  const Picos taken = std::max(c.now, nic.doorbell_free);
  nic.doorbell_free = taken + s_.faults.slowed(queue.local, s_.costs.doorbell);
  show(qp, taken);
}

Picos Requester::ring_flow(std::uint32_t qp, std::uint64_t doorbells) {
  Qp& queue = s_.qps[qp];
  Nic& nic = s_.nics[queue.local.value];
  Context& c = s_.context;
  nic.counters.doorbells += doorbells;
  nic.doorbell_free =
      std::max(c.now, nic.doorbell_free) +
      s_.faults.slowed(queue.local, s_.costs.doorbell) * static_cast<std::int64_t>(doorbells);
  show(qp, c.now);
  return nic.doorbell_free;
}

/// The NIC sees at `at` (or later, where the plan says so) what has been posted so far.
void Requester::show(std::uint32_t qp, Picos at) {
  Qp& queue = s_.qps[qp];
  Context& c = s_.context;
  if (c.observer != nullptr) {
    c.observer->instant({Track::Kind::qp, queue.local.value, qp}, "doorbell", c.now,
                        queue.counters.posted);
  }
  if (queue.counters.rung == queue.counters.posted) return;
  if (!queue.background) c.in_flight += queue.counters.posted - queue.counters.rung;
  queue.counters.rung = queue.counters.posted;
  const Picos late =
      s_.faults.doorbell_delay(queue.local) + c.chance.up_to(c.options.perturbation.doorbell);
  queue.last_doorbell = std::max(queue.last_doorbell, at + late);
  c.push(queue.last_doorbell, EventKind::doorbell, qp,
         static_cast<std::uint16_t>(queue.counters.posted));
}

void Requester::on_doorbell(std::uint32_t qp, std::uint16_t producer) {
  Qp& queue = s_.qps[qp];
  if (s_.faults.dead(queue.local)) return;
  const auto ahead = static_cast<std::uint16_t>(producer - queue.nic_producer);
  if (ahead < 0x8000) queue.nic_producer = producer;
  make_ready(qp);
  // Single requests of all QPs take turns from the start. Flows go by many at a time: were their
  // first turns in the order of their doorbells, all ranks would meet at one owner after another.
  Ring<std::uint32_t>& ready = s_.nics[queue.local.value].ready;
  if (queue.is_flow() && queue.ready && ready.size() > 1) {
    const auto place = static_cast<std::uint32_t>(s_.context.chance.next() % ready.size());
    std::swap(ready.at(place), ready.at(ready.size() - 1));
  }
}

bool Requester::may_start(const Qp& queue) {
  const Request& next = s_.qps.node(queue.to_start).request;
  if (!holds_reads(next.kind) || queue.outstanding == 0) return true;
  return queue.outstanding + next.count <= queue.most_outstanding;
}

/// Whether it has something that may start, but for its own rate; otherwise whatever holds it back
/// (a completion, a doorbell) asks again.
bool Requester::may_line_up(std::uint32_t qp) {
  Qp& queue = s_.qps[qp];
  if (queue.ready || queue.waits_for_rate || queue.nic_pending() == 0) return false;
  if (s_.faults.dead(queue.local)) return false;
  if (queue.failed) {
    flush(qp);
    return false;
  }
  return may_start(queue);
}

void Requester::make_ready(std::uint32_t qp) {
  if (!may_line_up(qp)) return;
  Qp& queue = s_.qps[qp];
  Nic& nic = s_.nics[queue.local.value];
  if (queue.next_start > s_.context.now) {
    cool(qp);
  } else {
    warm(nic);
    queue.ready = true;
    nic.ready.push(qp);
  }
  kick(queue.local.value);
}

// Most QPs cool for one and the same time, so that the NIC's list is in order without events.
void Requester::cool(std::uint32_t qp) {
  Qp& queue = s_.qps[qp];
  Nic& nic = s_.nics[queue.local.value];
  queue.waits_for_rate = true;
  const bool in_order = nic.cooling.size() == 0 || nic.cooling.back().until <= queue.next_start;
  if (in_order && !queue.is_flow()) {
    nic.cooling.push({queue.next_start, qp});
  } else {
    s_.context.push(queue.next_start, EventKind::qp_ready, qp);
  }
}

// Those that have cooled line up.
void Requester::warm(Nic& nic) {
  while (nic.cooling.size() > 0 && nic.cooling.at(0).until <= s_.context.now) {
    const std::uint32_t qp = nic.cooling.pop().qp;
    s_.qps[qp].waits_for_rate = false;
    if (!may_line_up(qp)) continue;
    s_.qps[qp].ready = true;
    nic.ready.push(qp);
  }
}

void Requester::on_qp_ready(std::uint32_t qp) {
  s_.qps[qp].waits_for_rate = false;
  make_ready(qp);
}

// The engine looks again when it is free and something may start; a later look that was planned
// before finds another time in engine_at.
void Requester::kick(std::uint32_t rank) {
  Nic& nic = s_.nics[rank];
  Picos at = std::max(s_.context.now, nic.engine_free);
  if (nic.ready.size() == 0) {
    if (nic.cooling.size() == 0) return;
    at = std::max(at, nic.cooling.at(0).until);
  }
  if (at >= nic.engine_at || s_.faults.dead(Rank{rank})) return;
  nic.engine_at = at;
  s_.context.push(at, EventKind::engine_free, rank);
}

void Requester::on_engine_free(std::uint32_t rank) {
  Nic& nic = s_.nics[rank];
  if (nic.engine_at != s_.context.now) return;
  nic.engine_at = Picos::max();
  if (s_.context.now >= nic.engine_free && !s_.faults.dead(Rank{rank})) {
    warm(nic);
    if (nic.ready.size() > 0) start(rank, take_ready(nic));
  }
  kick(rank);  // taking in writes may have moved engine_free
}

std::uint32_t Requester::take_ready(Nic& nic) {
  if (s_.context.options.perturbation.engine_order && nic.ready.size() > 1) {
    const auto drawn = s_.context.chance.next() % std::min(nic.ready.size(), 8u);
    std::swap(nic.ready.at(0), nic.ready.at(static_cast<std::uint32_t>(drawn)));
  }
  const std::uint32_t qp = nic.ready.pop();
  s_.qps[qp].ready = false;
  return qp;
}

// The next requests of `qp` as a train: equal in kind and memory, within the QP's limits.
std::uint32_t Requester::gather(std::uint32_t qp) {
  Qp& queue = s_.qps[qp];
  const std::uint32_t index = s_.trains.make();
  Train& train = s_.trains[index];
  const Request first = s_.qps.node(queue.to_start).request;
  train.qp = qp;
  train.first = queue.to_start;
  train.kind = first.kind;
  train.local_memory = first.local_memory;
  train.remote_memory = first.remote_memory;
  train.holds_reads = holds_reads(first.kind);
  const std::uint32_t most = most_in_train(queue, s_.context.options.fidelity, train.holds_reads);
  const std::uint64_t mtu = std::max(1u, s_.profile.network.mtu);
  while (queue.nic_pending() > 0) {
    const Request& next = s_.qps.node(queue.to_start).request;
    if (train.count > 0) {
      const bool alike = next.kind == first.kind && next.local_memory == first.local_memory &&
                         next.remote_memory == first.remote_memory;
      if (!alike || train.requests + next.count > most) break;
      if (train.holds_reads && queue.outstanding + next.count > queue.most_outstanding) break;
    }
    const std::uint64_t bytes = next.kind == RequestKind::atomic_add ? 8 : next.bytes;
    ++train.count;
    train.requests += next.count;
    train.payload += bytes * next.count;
    train.packets += std::max<std::uint64_t>(1, (bytes + mtu - 1) / mtu) * next.count;
    if (train.holds_reads) queue.outstanding += next.count;
    queue.to_start = s_.qps.node(queue.to_start).next;
    ++queue.nic_consumer;
  }
  train.turn = queue.turn;
  if (queue.connections > 1) queue.turn = (queue.turn + 1) % queue.connections;
  train.started = s_.context.now;
  return index;
}

void Requester::start(std::uint32_t rank, std::uint32_t qp) {
  Context& c = s_.context;
  Qp& queue = s_.qps[qp];
  Nic& nic = s_.nics[rank];
  if (queue.failed) return flush(qp);
  const std::uint32_t index = gather(qp);
  Train& train = s_.trains[index];

  const Picos each = s_.faults.slowed(queue.local, s_.costs.start(train.kind));
  const std::uint32_t missed = s_.misses(queue.local, train, false);
  const Picos miss = missed > 0 ? s_.costs.requester_miss : Picos{0};
  const Picos held = each * train.requests + s_.costs.requester_miss * missed;
  nic.engine_free = c.now + held;
  nic.counters.engine_busy += held;
  if (train.kind == RequestKind::read) nic.counters.reads += train.requests;
  if (train.kind == RequestKind::atomic_add) nic.counters.atomics += train.requests;
  if (!train.holds_reads) nic.counters.writes += train.requests;
  // The engine's pace or the QP's, whichever is slower, until the last of the train.
  Picos spread = each * (train.requests - 1);
  if (queue.is_flow()) {
    FlowPace& pace = s_.qps.pace(queue);
    pace.start(train.requests, c.now);
    queue.next_start = pace.earliest(pace.started);
    spread = std::max(spread, pace.earliest(pace.started - 1) - c.now);
  } else {
    queue.next_start = c.now + s_.costs.qp * train.requests;
    spread = std::max(spread, s_.costs.qp * (train.requests - 1));
  }
  if (c.observer != nullptr) {
    const Track track{Track::Kind::nic_engine, rank, 0};
    c.observer->span(track, name_of(train.kind), c.now, nic.engine_free, index);
    c.observer->flow_begin(track, c.now, index);
  }
  if (!queue.background && s_.faults.take_nic_error(queue.local, queue.index)) {
    s_.note_loss(qp, s_.faults.breaker(queue.local));
    fail(index, c.now + s_.costs.request_latency + s_.costs.completion_latency);
  } else {
    // The first request leaves after the latency of an idle NIC.
    send_request(index, c.now + miss + s_.faults.slowed(queue.local, s_.costs.request_latency),
                 spread);
  }
  make_ready(qp);
}

void Requester::send_request(std::uint32_t index, Picos at, Picos spread) {
  Train& train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  Picos leaves = at, whole = at + spread;
  if (train.kind == RequestKind::write && train.payload > 0) {
    Nic& nic = s_.nics[queue.local.value];
    const Picos moving = s_.costs.pcie(train.payload);
    const Picos begin = std::max(at, nic.pcie_read_free);
    nic.pcie_read_free = begin + moving;
    nic.counters.pcie_read_busy += moving;
    leaves = begin + s_.costs.memory_latency(train.local_memory);
    whole = std::max(whole, leaves + moving);
  }
  queue.last_inject = leaves = std::max(leaves, queue.last_inject);
  train.tail = std::max(leaves, whole);
  train.generation = ++s_.last_generation;
  s_.context.push(leaves, EventKind::inject, index, train.generation);
}

void Requester::on_inject(std::uint32_t index, std::uint32_t generation) {
  Train& train = s_.trains[index];
  if (train.generation != generation) return;
  const Qp& queue = s_.qps[train.qp];
  const bool carries = !train.holds_reads;
  train.expected = carries ? train.payload : 0;
  train.arrived = 0;
  s_.network.send({.kind = PacketKind::request,
                   .train = index,
                   .generation = generation,
                   .source = queue.source,
                   .target = queue.target,
                   .hash = s_.qps.hashes(queue, train.turn).there + train.attempts,
                   .lane = queue.lane,
                   .payload = train.expected,
                   .overhead = s_.request_overhead(train),
                   .segment = s_.segment,
                   .flow = carries ? data_flow(train.qp, true) : kUncontrolled,
                   .last_byte = train.tail});
}

Picos Requester::take_answer(std::uint32_t index, const Packet& packet) {
  Train& train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  Context& c = s_.context;
  Picos free = c.now;
  if (packet.payload > 0) {
    Nic& nic = s_.nics[queue.local.value];
    const Picos moving = s_.faults.slowed(queue.local, s_.costs.pcie(packet.payload));
    free = std::max(c.now, nic.pcie_write_free);
    nic.pcie_write_free = free + moving;
    nic.counters.pcie_write_busy += moving;
    train.tail = std::max({train.tail, packet.tail, free + moving});
  } else {
    train.tail = std::max(train.tail, packet.tail);
  }
  train.arrived += packet.payload;
  if (train.arrived < train.expected) return free;
  train.generation = 0;
  const Picos late =
      c.chance.up_to(s_.faults.completion_spread(queue.local) + c.options.perturbation.completion);
  const Picos seen = train.tail + s_.faults.slowed(queue.local, s_.costs.completion_latency) + late;
  queue.last_complete = std::max(queue.last_complete, seen);
  c.push(queue.last_complete, EventKind::complete, index);
  return free;
}

Train Requester::finish(std::uint32_t index) {
  const Train train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  Nic& nic = s_.nics[queue.local.value];
  if (train.holds_reads) queue.outstanding -= train.requests;
  if (train.status == Status::error) queue.failed = true;
  (train.status == Status::ok ? nic.counters.completed : nic.counters.failed) += train.requests;
  Context& c = s_.context;
  if (c.observer != nullptr) {
    const Track track{Track::Kind::qp, queue.local.value, train.qp};
    c.observer->span(track, name_of(train.kind), train.started, c.now, index);
    c.observer->flow_end(track, c.now, index);
  }
  s_.let_go(index);
  return train;
}

void Requester::on_retry(std::uint32_t index, std::uint32_t generation) {
  Train& train = s_.trains[index];
  if (train.generation != generation) return;
  const Rank local = s_.qps[train.qp].local;
  if (s_.faults.dead(local)) return;
  if (train.attempts >= s_.context.options.faults.retries) return fail(index, s_.context.now);
  ++train.attempts;
  s_.nics[local.value].counters.resent += train.requests;
  train.lost = false;
  send_request(index, s_.context.now, Picos{0});
}

// What was rung on a QP that failed completes with an error, unsent.
void Requester::flush(std::uint32_t qp) {
  while (s_.qps[qp].nic_pending() > 0) {
    const std::uint32_t index = gather(qp);
    fail(index, s_.context.now + s_.costs.completion_latency);
  }
}

void Requester::fail(std::uint32_t index, Picos at) {
  Train& train = s_.trains[index];
  Qp& queue = s_.qps[train.qp];
  train.generation = 0;
  train.status = Status::error;
  queue.failed = true;
  queue.last_complete = std::max(queue.last_complete, at);
  s_.context.push(queue.last_complete, EventKind::complete, index);
}

}  // namespace engram::sim
