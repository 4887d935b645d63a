#include "issue_bench.hpp"

#include <algorithm>

#include "engram/model/topology_builders.hpp"

namespace engram::validate {
namespace {

using sim::Picos;

// Tags: kind in the top bits.
constexpr std::uint64_t kWarp = 0, kProbe = 1, kIndex = 2, kRows = 3;
constexpr std::uint64_t tag_of(std::uint64_t kind, std::uint64_t number) {
  return kind << 60 | number;
}
constexpr std::uint64_t number_of(std::uint64_t tag) { return tag & ~(std::uint64_t{15} << 60); }

double over(std::uint64_t requests, Picos time) {
  return static_cast<double>(requests) / (static_cast<double>(time.count()) * 1e-12);
}

}  // namespace

double Timing::steady_per_second() const { return over(requests - requests / 4, end - quarter); }
double Timing::per_second() const { return over(requests, end); }

Result<std::unique_ptr<IssueBench>> IssueBench::create(const model::Profile& profile,
                                                       std::uint32_t ranks) {
  std::unique_ptr<IssueBench> bench(new IssueBench(profile));
  // Loads need no NIC, but the fabric numbers its ranks by them.
  model::Profile wired = profile;
  if (wired.nic.ports == 0) wired.nic.ports = 1;
  auto topology = model::single_switch({.nodes = ranks, .gpus_per_node = 1}, wired);
  if (!topology) return tl::unexpected(topology.error());
  auto engine = sim::Engine::create({.ranks = ranks, .watchdog = std::chrono::seconds{1}});
  if (!engine) return tl::unexpected(engine.error());
  bench->engine_ = std::move(*engine);
  auto fabric = sim::Fabric::create(*bench->engine_, *bench, {profile, std::move(*topology)});
  if (!fabric) return tl::unexpected(fabric.error());
  bench->fabric_ = std::move(*fabric);
  bench->done_ = bench->engine_->create_semaphore("the end of the experiment");
  return bench;
}

IssueBench::~IssueBench() {
  fabric_.reset();
  engine_.reset();
}

Result<sim::QpId> IssueBench::qp(std::uint32_t local, std::uint32_t remote, std::uint32_t index) {
  return fabric_->open_qp(Rank{local}, QpIndex{index}, Rank{remote});
}

void IssueBench::add(const WarpPlan& plan) {
  Warp warp;
  warp.plan = plan;
  warp.left = plan.requests;
  timing_.requests += plan.requests;
  warps_.push_back(warp);
}

Result<Timing> IssueBench::run() {
  if (auto ran = run_until_done(); !ran) return tl::unexpected(ran.error());
  if (failed_ > 0) return fail(ErrorCode::internal, failed_, " requests failed without a fault");
  return timing_;
}

Result<Picos> IssueBench::ping_pong(sim::QpId there, sim::QpId back, const sim::Request& request,
                                    bool behind_lock) {
  probe_qp_[0] = there;
  probe_qp_[1] = back;
  probe_ = request;
  probe_locked_ = behind_lock;
  probing_ = true;
  if (auto ran = run_until_done(); !ran) return tl::unexpected(ran.error());
  return probe_end_;
}

Result<Picos> IssueBench::gather(const std::vector<sim::LoadRequest>& loads,
                                 std::uint64_t index_bytes) {
  loads_ = loads;
  loads_left_ = loads.size();
  index_bytes_ = index_bytes;
  if (auto ran = run_until_done(); !ran) return tl::unexpected(ran.error());
  return timing_.end;
}

Result<void> IssueBench::run_until_done() {
  return engine_->run([this](Rank rank) {
    if (rank != Rank{0}) return;
    start_all();
    (void)engine_->acquire(done_);
  });
}

void IssueBench::start_all() {
  for (std::size_t i = 0; i < warps_.size(); ++i) step(i);
  if (probing_) send_probe(false);
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    sim::LoadRequest first = loads_[i];
    if (index_bytes_ > 0) {
      constexpr std::uint64_t kLine = 256;
      first.path = sim::LoadPath::own;
      first.owner = first.reader;
      first.rows = (first.rows * index_bytes_ + kLine - 1) / kLine;
      first.row_bytes = kLine;
      first.in_flight = {};
    }
    first.tag = tag_of(index_bytes_ > 0 ? kIndex : kRows, i);
    fabric_->load(first);
  }
}

IssueBench::Queue& IssueBench::queue(sim::QpId qp) {
  if (qp.value >= queues_.size()) queues_.resize(qp.value + 1);
  return queues_[qp.value];
}

void IssueBench::step(std::size_t index) {
  Warp& warp = warps_[index];
  switch (warp.phase) {
    case Phase::build:
      return build(index);
    case Phase::post:
      return post(index);
    case Phase::ring:
      fabric_->ring(warp.plan.qp);
      warp.phase = Phase::post;
      return post(index);
    case Phase::locked: {  // its turn has ended: the request is built and rung
      warp.plan.request.tag = tag_of(kWarp, index);
      fabric_->post(warp.plan.qp, warp.plan.request);
      fabric_->ring(warp.plan.qp);
      warp.phase = Phase::build;
      return build(index);
    }
  }
}

/// All lanes write their work requests.
void IssueBench::build(std::size_t index) {
  Warp& warp = warps_[index];
  if (warp.left == 0) return;
  if (warp.plan.sms_share) {
    --warp.left;
    warp.phase = Phase::locked;
    return take_turn(warp.plan.qp, tag_of(kWarp, index));
  }
  const model::IssueProfile& issue = profile_.issue;
  warp.ready = static_cast<std::uint32_t>(std::min<std::uint64_t>(warp.plan.lanes, warp.left));
  warp.left -= warp.ready;
  const std::uint32_t together = std::max(1u, issue.warp_parallel);
  Picos cost = Picos(issue.build) * ((warp.ready + together - 1) / together);
  if (warp.plan.warps_share) cost += issue.block_lock;
  if (!std::exchange(warp.started, true)) cost += issue.first;
  warp.phase = Phase::post;
  fabric_->at(engine_->now() + cost, tag_of(kWarp, index));
}

void IssueBench::post(std::size_t index) {
  Warp& warp = warps_[index];
  Queue& state = queue(warp.plan.qp);
  const auto ring = [&] {
    state.unrung = 0;
    warp.phase = Phase::ring;
    fabric_->at(engine_->now() + Picos(profile_.issue.doorbell), tag_of(kWarp, index));
  };
  while (warp.ready > 0) {
    if (!fabric_->has_slot(warp.plan.qp)) {
      if (state.unrung > 0) return ring();
      state.waiting.push_back(index);
      return;
    }
    warp.plan.request.tag = tag_of(kWarp, index);
    fabric_->post(warp.plan.qp, warp.plan.request);
    --warp.ready;
    const bool last = warp.ready == 0 && warp.left == 0;
    if (++state.unrung >= warp.plan.per_doorbell || last) return ring();
  }
  warp.phase = Phase::build;
  build(index);
}

/// SMs that share a context get it in the order in which they asked.
void IssueBench::take_turn(sim::QpId qp, std::uint64_t tag) {
  const model::IssueProfile& issue = profile_.issue;
  Queue& state = queue(qp);
  state.lock_free =
      std::max(state.lock_free, engine_->now()) + issue.shared_lock + issue.build + issue.doorbell;
  fabric_->at(state.lock_free, tag);
}

void IssueBench::send_probe(bool back) {
  const model::IssueProfile& issue = profile_.issue;
  if (probe_locked_) return take_turn(probe_qp_[back], tag_of(kProbe, back));
  fabric_->at(engine_->now() + issue.first + issue.build + issue.doorbell, tag_of(kProbe, back));
}

void IssueBench::remote_access(sim::QpId, const sim::Request& request) {
  if (request.tag >> 60 != kProbe) return;
  if (number_of(request.tag) == 0) return send_probe(true);
  probe_end_ = engine_->now();
  engine_->release(done_);
}

void IssueBench::completed(sim::QpId, const sim::Request& request, sim::Status status) {
  if (status == sim::Status::error) failed_ += request.count;
  completed_ += request.count;
  if (timing_.quarter.count() == 0 && completed_ >= timing_.requests / 4) {
    timing_.quarter = engine_->now();
  }
  if (completed_ < timing_.requests || probing_) return;
  timing_.end = engine_->now();
  engine_->release(done_);
}

void IssueBench::slot_freed(sim::QpId qp) {
  for (const std::size_t index : std::exchange(queue(qp).waiting, {})) step(index);
}

void IssueBench::timer(std::uint64_t tag) {
  if (tag >> 60 == kWarp) return step(number_of(tag));
  const sim::QpId qp = probe_qp_[number_of(tag)];
  probe_.tag = tag;
  fabric_->post(qp, probe_);
  fabric_->ring(qp);
}

void IssueBench::loaded(std::uint64_t tag) {
  const std::uint64_t i = number_of(tag);
  if (tag >> 60 == kIndex) {
    loads_[i].tag = tag_of(kRows, i);
    return fabric_->load(loads_[i]);
  }
  timing_.end = engine_->now();
  if (--loads_left_ == 0) engine_->release(done_);
}

}  // namespace engram::validate
