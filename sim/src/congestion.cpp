#include "congestion.hpp"

#include <algorithm>

namespace engram::sim {
namespace {

/// A flow this close to its port's rate is no longer held back.
constexpr double kWhole = 0.999;

}  // namespace

CongestionControl::CongestionControl(const Context& context)
    : context_(context),
      profile_(context.options.profile.congestion),
      on_(context.options.congestion == Congestion::dcqcn) {}

std::uint32_t CongestionControl::flow(std::uint64_t key, std::uint32_t source, std::uint32_t target,
                                      double line) {
  const auto [at, is_new] = slots_.try_emplace(key, static_cast<std::uint32_t>(flows_.size()));
  if (is_new) {
    Flow& flow = flows_.emplace_back();
    flow.source = source;
    flow.target = target;
    flow.line = flow.rate = flow.goal = line;
  }
  return at->second;
}

bool CongestionControl::mark(std::uint64_t queued, Chance& chance) {
  counters_.longest_queue = std::max(counters_.longest_queue, queued);
  const std::uint64_t from = profile_.mark_from.count, full = profile_.mark_full.count;
  if (queued <= from) return false;
  if (queued < full) {
    const double share = static_cast<double>(queued - from) / static_cast<double>(full - from) /
                         std::max(1u, profile_.mark_one_in);
    if (static_cast<double>(chance.next() >> 11) * 0x1p-53 >= share) return false;
  }
  ++counters_.marked;
  return true;
}

bool CongestionControl::notifies(std::uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.notified >= Picos{0} && context_.now < flow.notified + profile_.notify_interval) {
    return false;
  }
  flow.notified = context_.now;
  return true;
}

void CongestionControl::cut(std::uint32_t index) {
  Flow& flow = flows_[index];
  catch_up(flow);
  const double gain = 1.0 / std::max(1u, profile_.gain_one_in);
  flow.goal = flow.rate;
  flow.rate = std::max(flow.rate * (1 - flow.alpha / 2), profile_.additive_rate.value);
  flow.alpha = (1 - gain) * flow.alpha + gain;
  flow.limited = true;
  flow.alpha_due = context_.now + profile_.alpha_interval;
  flow.step_due = context_.now + profile_.step_interval;
  flow.sent = 0;
  flow.time_steps = flow.byte_steps = 0;
  ++counters_.cuts;
  if (counters_.slowest.value == 0 || flow.rate < counters_.slowest.value) {
    counters_.slowest = {flow.rate};
  }
}

bool CongestionControl::limits(std::uint32_t index) {
  Flow& flow = flows_[index];
  if (flow.limited) catch_up(flow);
  return flow.limited;
}

Picos CongestionControl::pace(std::uint32_t index, std::uint64_t bytes) {
  Flow& flow = flows_[index];
  if (flow.limited) {
    catch_up(flow);
    flow.sent += bytes;
    while (flow.limited && flow.sent >= profile_.step_bytes.count) {
      flow.sent -= profile_.step_bytes.count;
      ++flow.byte_steps;
      step_up(flow);
    }
  }
  return wire_time(bytes, BytesPerSecond{flow.rate});
}

// Timers that have run out since the flow was last looked at, in their order.
void CongestionControl::catch_up(Flow& flow) {
  const double gain = 1.0 / std::max(1u, profile_.gain_one_in);
  while (flow.limited && std::min(flow.alpha_due, flow.step_due) <= context_.now) {
    if (flow.alpha_due <= flow.step_due) {
      flow.alpha *= 1 - gain;
      flow.alpha_due += profile_.alpha_interval;
    } else {
      flow.step_due += profile_.step_interval;
      ++flow.time_steps;
      step_up(flow);
    }
  }
}

void CongestionControl::step_up(Flow& flow) {
  const std::uint32_t most = std::max(flow.time_steps, flow.byte_steps);
  const std::uint32_t least = std::min(flow.time_steps, flow.byte_steps);
  if (least > profile_.recovery_steps) {
    flow.goal += profile_.hyper_rate.value * (least - profile_.recovery_steps);
  } else if (most > profile_.recovery_steps) {
    flow.goal += profile_.additive_rate.value;
  }
  flow.goal = std::min(flow.goal, flow.line);
  flow.rate = (flow.rate + flow.goal) / 2;
  if (flow.rate < kWhole * flow.line) return;
  flow.rate = flow.goal = flow.line;
  flow.limited = false;
}

}  // namespace engram::sim
