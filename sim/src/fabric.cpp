#include "engram/sim/fabric.hpp"

#include <algorithm>

#include "background.hpp"
#include "fabric_options.hpp"
#include "loads.hpp"
#include "nic.hpp"

namespace engram::sim {

class Fabric::Impl : public EventHandler, public EventPreview, public PacketSink {
 public:
  Impl(Engine& engine, FabricClient& client, FabricOptions options)
      : engine_(engine),
        options_(std::move(options)),
        context_{engine.events(), client, options_, options_.observer,
                 Chance(options_.perturbation.seed)},
        qps_(context_),
        network_(context_, *this),
        faults_(context_),
        nics_(context_, qps_, network_, faults_),
        requester_(nics_),
        responder_(nics_),
        loads_(context_),
        background_(nics_, requester_) {
    faults_.schedule(network_);
    engine_.set_handler(this);
    engine_.events().set_preview(this);
  }
  ~Impl() override {
    engine_.set_handler(nullptr);
    engine_.events().set_preview(nullptr);
  }

  /// At the entry of every call that may come from an actor.
  void sync() {
    context_.now = engine_.now();
    if (!options_.background.empty()) background_.wake();
  }

  void handle(const Event& event) override {
    context_.now = Picos{event.time};
    ++num_events_;
    const std::uint32_t a = event.a;
    const auto generation = static_cast<std::uint32_t>(event.b);
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::doorbell:
        return requester_.on_doorbell(a, static_cast<std::uint16_t>(event.b));
      case EventKind::engine_free:
        return requester_.on_engine_free(a);
      case EventKind::qp_ready:
        return requester_.on_qp_ready(a);
      case EventKind::inject:
        return requester_.on_inject(a, generation);
      case EventKind::port_free:
        return network_.on_port_free(a);
      case EventKind::arrive:
        return network_.on_arrive(a);
      case EventKind::credit:
        return network_.on_credit(a, event.b);
      case EventKind::memory:
        return responder_.on_memory(a, generation);
      case EventKind::visible:
        return responder_.on_visible(a);
      case EventKind::acknowledge:
        return responder_.on_acknowledge(a, generation);
      case EventKind::complete:
        return on_complete(a);
      case EventKind::retry:
        return requester_.on_retry(a, generation);
      case EventKind::timer:
        return context_.client.timer(event.b);
      case EventKind::load_issue:
        return loads_.on_issue(a);
      case EventKind::load_at_owner:
        return loads_.on_owner(a);
      case EventKind::load_at_reader:
        return loads_.on_reader(a);
      case EventKind::load_done:
        return loads_.on_done(a);
      case EventKind::background:
        return background_.on_message(a);
      case EventKind::paced:
        return network_.on_paced(a);
      case EventKind::notification:
        return network_.on_notification(a);
      case EventKind::fault_begin:
        return on_fault(a);
      case EventKind::fault_end:
        return faults_.on_end(a, network_);
    }
    require(false, "an event of an unknown kind");
  }

  // In passes, so that what one asks for has come when the next follows it.
  void soon(std::span<const Event> events) override {
    for (const Event& event : events) {
      if (is_of_packet(event)) network_.packets().fetch(event.a);
      if (is_of_train(event)) nics_.trains.fetch(event.a);
    }
    for (const Event& event : events) {
      if (is_of_packet(event)) {
        const std::uint32_t train = network_.packets()[event.a].train;
        if (train != kNone) nics_.trains.fetch(train);
      } else if (is_of_train(event)) {
        const Train& train = nics_.trains[event.a];
        if (train.qp != kNone) qps_.fetch(train.qp);
        if (train.first != kNone) qps_.nodes().fetch(train.first);
      }
    }
    for (const Event& event : events) {
      const auto kind = static_cast<EventKind>(event.kind);
      if (is_of_packet(event)) {
        const std::uint32_t train = network_.packets()[event.a].train;
        if (train != kNone) qps_.fetch(nics_.trains[train].qp);
      } else if (kind == EventKind::memory && nics_.trains[event.a].first != kNone) {
        context_.client.soon(qps_.node(nics_.trains[event.a].first).request);
      }
    }
    for (const Event& event : events) {
      if (!is_of_packet(event)) continue;
      const std::uint32_t train = network_.packets()[event.a].train;
      if (train != kNone) qps_.fetch_connection(nics_.trains[train].qp);
    }
  }

  void describe_pending(std::string& text) const override { qps_.describe_pending(text); }

  Picos deliver(const Packet& packet) override {
    if (packet.kind == PacketKind::background) return context_.now;
    const Train& train = nics_.trains[packet.train];
    if (train.generation != packet.generation) return context_.now;  // sent again since
    const Qp& queue = qps_[train.qp];
    const bool request = packet.kind == PacketKind::request;
    const Rank end = request ? queue.remote : queue.local;
    if (faults_.dead(end)) {
      lost(packet, faults_.killer(end));
      return context_.now;
    }
    return request ? responder_.take_request(packet.train, packet)
                   : requester_.take_answer(packet.train, packet);
  }

  void lost(const Packet& packet, std::uint32_t fault) override {
    nics_.lost(packet.train, packet.generation, fault);
  }

  void ring(std::uint32_t qp) {
    if (!faults_.dead(qps_[qp].local)) requester_.ring(qp);
  }

  Result<void> bulk_flow(const FlowRequest& flow);
  Picos unloaded_time(Rank local, Rank remote, const Request& request) const;

  Engine& engine_;
  const FabricOptions options_;
  Context context_;
  QpTable qps_;
  Network network_;
  FaultState faults_;
  NicState nics_;
  Requester requester_;
  Responder responder_;
  Loads loads_;
  BackgroundTraffic background_;
  std::uint64_t num_events_ = 0;

 private:
  struct Flow {
    std::uint64_t pieces = 0, tag = 0;
  };

  static bool is_of_packet(const Event& event) {
    return static_cast<EventKind>(event.kind) == EventKind::arrive;
  }
  static bool is_of_train(const Event& event) {
    const auto kind = static_cast<EventKind>(event.kind);
    return kind == EventKind::inject || kind == EventKind::memory || kind == EventKind::complete;
  }

  void on_complete(std::uint32_t index) {
    if (faults_.dead(qps_[nics_.trains[index].qp].local)) return;  // nobody there to see it
    const Train train = requester_.finish(index);
    qps_.complete(train.qp, train.first, train.count, train.status, [this](std::uint32_t flow) {
      if (--flows_[flow].pieces > 0) return;
      const std::uint64_t tag = flows_[flow].tag;
      flows_.free(flow);
      context_.client.loaded(tag);
    });
    requester_.resume(train.qp);
  }

  void on_fault(std::uint32_t index) {
    const Fault& fault = options_.faults.faults[index];
    const bool dies =
        fault.kind == FaultKind::rank_dead || fault.kind == FaultKind::memory_node_gone;
    if (dies && !faults_.dead(fault.rank)) {  // what it had under way will never complete
      for (std::uint32_t qp = 0; qp < qps_.size(); ++qp) {
        if (qps_[qp].local != fault.rank || qps_[qp].background) continue;
        context_.in_flight -= qps_[qp].counters.rung - qps_[qp].counters.completed;
      }
    }
    faults_.on_begin(index, network_);
  }

  Pool<Flow> flows_;
};

Result<void> Fabric::Impl::bulk_flow(const FlowRequest& flow) {
  if (flow.count == 0) {
    return fail(ErrorCode::invalid_argument, "a flow of no requests from rank ", flow.local.value,
                " to rank ", flow.remote.value);
  }
  const auto& nic = options_.profile.nic;
  const std::uint32_t planes = options_.topology.num_planes();
  // Apart from the client's own QPs.
  const std::uint32_t index = 0xFFFFFFFFu - (flow.service_level * planes + flow.plane % planes);
  const std::uint32_t qps = std::max(1u, flow.qps);
  auto opened = qps_.open(flow.local, QpIndex{index}, flow.remote,
                          {.depth = nic.max_queue_depth,
                           .service_level = flow.service_level,
                           .stands_for = qps,
                           .plane = flow.plane % planes});
  if (!opened.has_value()) return tl::unexpected(opened.error());
  Qp& queue = qps_[*opened];
  const bool reads = flow.kind == RequestKind::read || flow.kind == RequestKind::atomic_add;
  const std::uint32_t depth = flow.depth == 0 ? nic.queue_depth : flow.depth;
  FlowLimits limits{.now = context_.now, .qp_interval = nics_.costs.qp};
  limits.reads_of_a_qp = std::min(queue.options.outstanding_reads, std::max(1u, depth));
  const std::uint64_t window = window_of(flow, limits.reads_of_a_qp);
  const bool disturbed = !options_.background.empty() || !options_.faults.faults.empty();
  const std::uint64_t piece =
      piece_of(flow, nics_.segment, reads ? window : 0, disturbed, queue.options.depth);
  const std::uint64_t pieces = (flow.count + piece - 1) / piece;
  const std::uint64_t held = queue.counters.posted - queue.counters.completed;
  if (held + pieces > queue.options.depth) {
    return fail(ErrorCode::out_of_range, "a flow of ", flow.count, " requests from rank ",
                flow.local.value, " to rank ", flow.remote.value, " needs ", pieces,
                " pieces beside ", held, " under way; ", queue.options.depth, " fit");
  }
  // The pace keeps to the window. Where others make answers late, what is in flight does; a piece
  // counts from its first request to its last answer. Else this only bounds what waits.
  queue.most_outstanding =
      static_cast<std::uint32_t>(disturbed ? window + piece - 1 : std::max(2 * window, 4 * piece));
  const std::uint32_t place = flows_.make();
  flows_[place] = {pieces, flow.tag};
  std::uint64_t left = flow.count;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t count = std::min(left, piece);
    left -= count;
    const std::uint32_t node = qps_.post(*opened, {.kind = flow.kind,
                                                   .local_memory = flow.local_memory,
                                                   .remote_memory = flow.remote_memory,
                                                   .count = static_cast<std::uint32_t>(count),
                                                   .bytes = flow.bytes_each,
                                                   .tag = flow.tag});
    qps_.node(node).flow = place;
  }
  if (faults_.dead(flow.local)) return {};
  const Picos rung = requester_.ring_flow(*opened, std::max<std::uint64_t>(1, flow.doorbells));
  limits.issued_over = std::max(flow.issued_over, rung - context_.now);
  if (reads) {
    limits.round_trip = unloaded_time(flow.local, flow.remote,
                                      {.kind = flow.kind,
                                       .local_memory = flow.local_memory,
                                       .remote_memory = flow.remote_memory,
                                       .bytes = flow.bytes_each});
  }
  qps_.pace(queue) = pace_of(flow, limits);  // also for what earlier flows have left
  return {};
}

Picos Fabric::Impl::unloaded_time(Rank local, Rank remote, const Request& request) const {
  const NicCosts& cost = nics_.costs;
  const auto& nic = options_.profile.nic;
  const auto from = options_.topology.nic(local, 0), to = options_.topology.nic(remote, 0);
  require(from.has_value() && to.has_value(), "unloaded_time between ranks with NICs");
  const Network::Way there = network_.way(from->value, to->value);
  const Network::Way back = network_.way(to->value, from->value);
  const std::uint64_t packets =
      std::max<std::uint64_t>(1, (request.bytes + nics_.segment - 1) / nics_.segment);
  const std::uint64_t carried = request.bytes + packets * nic.header_bytes;
  Picos time = cost.request_latency + there.latency + cost.response_latency + back.latency +
               cost.completion_latency;
  switch (request.kind) {
    case RequestKind::read:
      time += there.slowest(nic.request_bytes) + cost.read_latency +
              cost.memory_latency(request.remote_memory) +
              std::max(back.slowest(carried), cost.pcie(request.bytes));
      break;
    case RequestKind::write:
      time += cost.memory_latency(request.local_memory) +
              std::max(there.slowest(carried), cost.pcie(request.bytes)) +
              back.slowest(nic.header_bytes);
      break;
    case RequestKind::write_inline:
      time += there.slowest(carried) + back.slowest(nic.header_bytes);
      break;
    case RequestKind::atomic_add:
      time += there.slowest(nic.request_bytes) + cost.atomic_latency +
              cost.memory_latency(request.remote_memory) + back.slowest(8 + nic.header_bytes);
      break;
  }
  return time;
}

Result<std::unique_ptr<Fabric>> Fabric::create(Engine& engine, FabricClient& client,
                                               FabricOptions options) {
  if (auto fine = check_options(options, engine.num_ranks()); !fine.has_value())
    return tl::unexpected(fine.error());
  std::unique_ptr<Fabric> fabric(
      new Fabric(std::make_unique<Impl>(engine, client, std::move(options))));
  if (auto opened = fabric->impl_->background_.open(); !opened) {
    return tl::unexpected(opened.error());
  }
  return fabric;
}

Fabric::Fabric(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Fabric::~Fabric() = default;

Result<QpId> Fabric::open_qp(Rank local, QpIndex index, Rank remote, const QpOptions& options) {
  auto qp = impl_->qps_.open(local, index, remote, options);
  if (!qp.has_value()) return tl::unexpected(qp.error());
  return QpId{*qp};
}

Fabric::QpInfo Fabric::qp_info(QpId qp) const {
  const Qp& queue = impl_->qps_[qp.value];
  return {queue.local, queue.remote, queue.index, queue.options};
}

std::uint32_t Fabric::num_qps() const { return impl_->qps_.size(); }
bool Fabric::has_slot(QpId qp) { return impl_->qps_.has_slot(qp.value); }
void Fabric::post(QpId qp, const Request& request) { impl_->qps_.post(qp.value, request); }

void Fabric::ring(QpId qp) {
  impl_->sync();
  impl_->ring(qp.value);
}

QpCounters Fabric::counters(QpId qp) const { return impl_->qps_[qp.value].counters; }

void Fabric::at(Picos time, std::uint64_t tag) {
  impl_->sync();
  impl_->context_.push(time, EventKind::timer, 0, tag);
}

void Fabric::load(const LoadRequest& request) {
  impl_->sync();
  const std::uint32_t ranks = impl_->options_.topology.num_ranks();
  require(request.reader.value < ranks && request.owner.value < ranks, "a load between ranks");
  impl_->loads_.start(request);
}

Result<void> Fabric::bulk_flow(const FlowRequest& flow) {
  impl_->sync();
  return impl_->bulk_flow(flow);
}

Picos Fabric::unloaded_time(Rank local, Rank remote, const Request& request) const {
  return impl_->unloaded_time(local, remote, request);
}

const NicCounters& Fabric::nic_counters(Rank rank) const {
  return impl_->nics_.nics[rank.value].counters;
}
const LinkCounters& Fabric::link_counters(model::LinkIndex link) const {
  return impl_->network_.counters(link.value);
}
const LinkCounters& Fabric::nvlink_out(Rank rank) const { return impl_->loads_.out(rank); }
const LinkCounters& Fabric::nvlink_in(Rank rank) const { return impl_->loads_.in(rank); }
const LinkCounters& Fabric::host_link(Rank rank) const { return impl_->loads_.host(rank); }
const CongestionCounters& Fabric::congestion() const { return impl_->network_.congestion(); }
const FabricOptions& Fabric::options() const { return impl_->options_; }
Picos Fabric::visibility_delay(Rank rank) { return impl_->faults_.visibility_delay(rank); }
std::optional<Fabric::Trouble> Fabric::trouble(QpId qp) const {
  const Qp& queue = impl_->qps_[qp.value];
  if (const auto killer = impl_->faults_.killer(queue.local); killer != kNone) {
    return Trouble{killer, 0, true};
  }
  const auto found = impl_->nics_.losses.find(qp.value);
  if (found == impl_->nics_.losses.end()) return std::nullopt;
  return Trouble{found->second.fault, found->second.times, queue.failed};
}
std::uint64_t Fabric::fault_effects(std::uint32_t fault) const {
  const Fault& one = impl_->options_.faults.faults[fault];
  return one.kind == FaultKind::link_down ? impl_->network_.missed(one.link.value)
                                          : impl_->faults_.effects(fault);
}
std::uint64_t Fabric::background_messages(std::uint32_t background) const {
  return impl_->background_.messages(background);
}
std::uint64_t Fabric::num_events() const { return impl_->num_events_; }

}  // namespace engram::sim
