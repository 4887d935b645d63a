#include "background.hpp"

#include <algorithm>

#include "engram/model/ecmp.hpp"

namespace engram::sim {
namespace {

/// QPs over which one entry's reads or writes go in turn, so that the NIC and the wire limit them
/// and not the reads that one QP may have in flight: 64 x 16 reads in 10 us are 102 M/s, above any
/// NIC here. A NIC gives turns to QPs, so few of them would get little beside a fetch of many.
constexpr std::uint32_t kQpsOfAnEntry = 64;

}  // namespace

BackgroundTraffic::BackgroundTraffic(NicState& state, Requester& requester)
    : s_(state),
      requester_(requester),
      entries_(state.context.options.background),
      rests_(entries_.size(), true),
      qps_(entries_.size(), kNone),
      turns_(entries_.size()),
      sent_(entries_.size()) {}

Result<void> BackgroundTraffic::open() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const Background& b = entries_[i];
    if (b.kind == BackgroundKind::flow) continue;
    const bool reads = b.kind == BackgroundKind::reads;
    for (std::uint32_t q = 0; q < kQpsOfAnEntry; ++q) {
      const QpIndex index{kFirstBackgroundQp.value + i * kQpsOfAnEntry + q};
      auto qp = s_.qps.open(reads ? b.to : b.from, index, reads ? b.from : b.to,
                            {.service_level = b.service_level});
      if (!qp) return within(qp.error(), "background entry ", i);
      s_.qps[*qp].background = true;
      if (q == 0) qps_[i] = *qp;
    }
  }
  return {};
}

void BackgroundTraffic::wake() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (!rests_[i]) continue;
    rests_[i] = false;
    s_.context.push(std::max(s_.context.now, entries_[i].start), EventKind::background, i);
  }
}

void BackgroundTraffic::on_message(std::uint32_t entry) {
  Context& c = s_.context;
  const Background& b = entries_[entry];
  if (c.now >= b.stop) return;
  if (c.in_flight == 0) {
    rests_[entry] = true;
    return;
  }
  qps_[entry] == kNone ? send(entry) : post(entry);
  c.push(c.now + std::max(Picos{1}, wire_time(b.message.count, b.rate)), EventKind::background,
         entry);
}

void BackgroundTraffic::send(std::uint32_t entry) {
  const Background& b = entries_[entry];
  const FabricOptions& options = s_.context.options;
  const auto from = options.topology.nic(b.from, 0), to = options.topology.nic(b.to, 0);
  const std::uint8_t lane = options.lanes.service_level[b.service_level];
  if (s_.network.backlogged(from->value, lane, background_flow(entry))) return;
  ++sent_[entry];
  s_.network.send({.kind = PacketKind::background,
                   .source = from->value,
                   .target = to->value,
                   .hash = model::flow_hash({b.from, b.to, QpIndex{entry}, 0}, options.ecmp_seed),
                   .lane = lane,
                   .payload = b.message.count,
                   .overhead = 0,
                   .segment = s_.segment,
                   .flow = background_flow(entry)});
}

// What finds no slot is not asked for: the NICs and the wire give less than the offered rate.
void BackgroundTraffic::post(std::uint32_t entry) {
  const Background& b = entries_[entry];
  const std::uint32_t qp = qps_[entry] + turns_[entry]++ % kQpsOfAnEntry;
  const Qp& queue = s_.qps[qp];
  if (queue.failed || s_.faults.dead(queue.local)) return;
  if (queue.counters.posted - queue.counters.completed >= queue.options.depth) return;
  const bool reads = b.kind == BackgroundKind::reads;
  s_.qps.post(qp,
              {.kind = reads ? RequestKind::read : RequestKind::write, .bytes = b.message.count});
  requester_.ring(qp);
  ++sent_[entry];
}

}  // namespace engram::sim
