#include "flow_pace.hpp"

#include <cmath>

namespace engram::sim {
namespace {

/// Requests of a flow that travel as one: an engine turns to another flow after 1.4 us at 45 M/s.
constexpr std::uint64_t kMostInPiece = 64;
/// Of which so many belong to one QP: the reads that it keeps in flight.
constexpr double kOfEachQp = 16;
/// A piece gives its places in flight back together. Where answers come late for what others do, a
/// window must hold several; where only the run's own reads meet, the pace alone keeps to it.
constexpr std::uint64_t kPiecesInDisturbedWindow = 8;

std::uint64_t fullest_qp(const FlowRequest& flow) {
  const std::uint64_t qps = std::max(1u, flow.qps);
  return std::max((flow.count + qps - 1) / qps, flow.most_on_one_qp);
}

}  // namespace

// The fullest QP sends so many of its requests a round trip; what all send at first is the window.
std::uint64_t window_of(const FlowRequest& flow, std::uint32_t reads_of_a_qp) {
  const std::uint64_t fullest = fullest_qp(flow);
  return (reads_of_a_qp * flow.count + fullest - 1) / fullest;
}

// It ends with its fullest QP, as if it had count / fullest of them.
FlowPace pace_of(const FlowRequest& flow, const FlowLimits& limits) {
  const auto count = static_cast<std::int64_t>(flow.count);
  const auto fullest = static_cast<std::int64_t>(fullest_qp(flow));
  FlowPace pace;
  pace.issued_from = pace.window_from = limits.now;
  pace.each = std::max(limits.qp_interval * fullest, limits.issued_over) / count;
  if (limits.round_trip == Picos{0}) return pace;
  const auto reads = static_cast<std::int64_t>(limits.reads_of_a_qp);
  const std::int64_t rounds = (fullest + reads - 1) / reads;
  const auto window =
      std::min(count, static_cast<std::int64_t>(window_of(flow, limits.reads_of_a_qp)));
  pace.window = static_cast<std::uint64_t>(window);
  if (count > window) pace.step = limits.round_trip * (rounds - 1) / (count - window);
  return pace;
}

// A flow takes as many turns as its fullest QP would, some requests of each of its QPs at a turn;
// about a packet of payload at most. The last piece is what is left: it ends no later for the cut.
std::uint64_t piece_of(const FlowRequest& flow, std::uint64_t segment, std::uint64_t window,
                       bool disturbed, std::uint64_t depth) {
  const std::uint64_t by_bytes =
      std::max<std::uint64_t>(1, segment / std::max<std::uint64_t>(1, flow.bytes_each));
  const auto most = static_cast<double>(std::min(kMostInPiece, by_bytes));
  const double turns =
      static_cast<double>(fullest_qp(flow)) / std::min(kOfEachQp, most / std::max(1u, flow.qps));
  auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(flow.count) / turns));
  if (window > 0 && flow.count > window) {
    wanted = std::min(
        wanted, std::max<std::uint64_t>(1, window / (disturbed ? kPiecesInDisturbedWindow : 1)));
  }
  return std::max({std::uint64_t{1}, wanted, (flow.count + depth - 1) / depth});
}

}  // namespace engram::sim
