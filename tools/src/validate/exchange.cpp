#include "exchange.hpp"

#include "figure_values.hpp"
#include "issue_bench.hpp"

namespace engram::validate {
namespace {

using model::Profile;
using model::PublishedFigure;
using sim::RequestKind;

/// What a token's row is on the wire: fp8 with a 4-byte scale for 128 elements, or bf16; a
/// dispatched one with 16 bytes that say where it comes from.
std::uint64_t token_bytes(const PublishedFigure& f, bool dispatch) {
  constexpr std::uint64_t kFrom = 16, kScaled = 128, kScale = 4;
  const std::uint64_t hidden = count(f, "hidden", 7168);
  if (!dispatch) return 2 * hidden;
  if (f.experiment.word("dtype", "fp8") == "bf16") return 2 * hidden + kFrom;
  return hidden + hidden / kScaled * kScale + kFrom;
}

/// Low-latency kernels over RDMA alone: one write a (token, expert), evenly to all ranks, each
/// connection driven by a warp of its own. Rows for the own rank do not travel. The time is that of
/// the last completion; what the kernels do beside sending is not modelled.
Result<Outcome> low_latency(const PublishedFigure& f, const Profile& profile) {
  const std::uint32_t ranks = count(f, "ranks", 8);
  const std::uint64_t rows = std::uint64_t{count(f, "tokens", 128)} * count(f, "topk", 8);
  const std::uint64_t bytes = token_bytes(f, f.experiment.word("operation", "") == "dispatch");
  auto bench = IssueBench::create(profile, ranks);
  if (!bench) return tl::unexpected(bench.error());
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::uint32_t i = 1; i < ranks; ++i) {
      const std::uint32_t peer = (r + i) % ranks;
      const auto qp = (*bench)->qp(r, peer);
      if (!qp) return tl::unexpected(qp.error());
      (*bench)->add({.qp = *qp,
                     .requests = rows * (peer + 1) / ranks - rows * peer / ranks,
                     .request = {.kind = RequestKind::write, .bytes = bytes}});
    }
  }
  const auto timing = (*bench)->run();
  if (!timing) return tl::unexpected(timing.error());
  // Published bandwidths count every row, also those that stay.
  return f.unit == "us" ? time_of(timing->end) : bandwidth_of(rows * bytes, timing->end);
}

}  // namespace

Result<Outcome> expert_parallel(const PublishedFigure& f, const Profile& profile) {
  if (f.experiment.word("kind", "normal") != "low_latency") {
    return Outcome{{}, "not modelled: rows are forwarded and added by kernels of their own"};
  }
  if (count(f, "ranks", 8) <= count(f, "gpus_per_node", 8)) {
    return Outcome{{}, "not modelled: faster than the NIC's port, so rows cross NVLink"};
  }
  return low_latency(f, profile);
}

}  // namespace engram::validate
