#include "experiments.hpp"

#include <algorithm>
#include <map>

#include "engram/model/floors.hpp"
#include "engram/model/profile_file.hpp"
#include "exchange.hpp"
#include "figure_values.hpp"
#include "issue_bench.hpp"

namespace engram::validate {
namespace {

using model::Profile;
using model::PublishedFigure;
using sim::Memory;
using sim::Picos;
using sim::Request;
using sim::RequestKind;

constexpr std::uint32_t kWarpLanes = 32;
/// Long enough for a rate to settle; short enough for a laptop.
constexpr std::uint64_t kRateRequests = 40'000;

Outcome rate_of(double per_second) { return {per_second * 1e-6, ""}; }

tl::unexpected<Error> unknown(const PublishedFigure& f, const char* what) {
  return fail(ErrorCode::invalid_argument, f.id, ": experiment '", f.experiment.name, "' has no ",
              what, " '", f.quantity, "'");
}

Memory memory_of(const PublishedFigure& f) {
  return f.experiment.word("memory", "gpu") == "host" ? Memory::host : Memory::gpu;
}

Request read_of(const PublishedFigure& f) {
  return {.kind = RequestKind::read,
          .remote_memory = memory_of(f),
          .bytes = static_cast<std::uint64_t>(f.experiment.number("bytes", 256))};
}
Request write_of(const PublishedFigure& f) {
  const auto bytes = static_cast<std::uint64_t>(f.experiment.number("bytes", 8));
  return {.kind = bytes <= 64 ? RequestKind::write_inline : RequestKind::write, .bytes = bytes};
}

/// One request on an idle queue, from the thread's first instruction to its completion.
Result<Picos> one_request(const Profile& profile, const Request& request) {
  auto bench = IssueBench::create(profile, 2);
  if (!bench) return tl::unexpected(bench.error());
  const auto qp = (*bench)->qp(0, 1);
  if (!qp) return tl::unexpected(qp.error());
  (*bench)->add({.qp = *qp, .requests = 1, .request = request});
  const auto timing = (*bench)->run();
  if (!timing) return tl::unexpected(timing.error());
  return timing->end;
}

Result<Outcome> single_write(const PublishedFigure& f, const Profile& profile) {
  const Picos issue = profile.issue.first + profile.issue.build + profile.issue.doorbell;
  if (f.quantity == "issue") {
    const bool system = f.experiment.word("fence", "own_gpu") == "system";
    return time_of(issue + (system ? profile.scope.system : Nanos{}));
  }
  if (f.quantity == "round trip") {
    auto bench = IssueBench::create(profile, 2);
    if (!bench) return tl::unexpected(bench.error());
    const auto there = (*bench)->qp(0, 1), back = (*bench)->qp(1, 0);
    if (!there || !back) return tl::unexpected((there ? back : there).error());
    const auto took = (*bench)->ping_pong(*there, *back, write_of(f), false);
    if (!took) return tl::unexpected(took.error());
    return time_of(*took);
  }
  const auto took = one_request(profile, write_of(f));
  if (!took) return tl::unexpected(took.error());
  if (f.quantity == "put + completion") return time_of(*took);
  if (f.quantity == "doorbell to completion") return time_of(*took - issue);
  return unknown(f, "quantity");
}

Result<Outcome> single_read(const PublishedFigure& f, const Profile& profile) {
  const auto took = one_request(profile, read_of(f));
  if (!took) return tl::unexpected(took.error());
  return time_of(*took);
}

/// How a benchmark spreads threads over QPs.
struct Posting {
  std::uint32_t qps = 1, threads = 1, per_doorbell = 1;
  std::uint64_t requests = kRateRequests;
};

Result<Timing> post(const Profile& profile, const Posting& posting, const Request& request) {
  auto bench = IssueBench::create(profile, 2);
  if (!bench) return tl::unexpected(bench.error());
  const std::uint32_t threads = std::max(1u, posting.threads / posting.qps);
  const std::uint32_t warps = (threads + kWarpLanes - 1) / kWarpLanes;
  const std::uint64_t all = std::uint64_t{warps} * posting.qps;
  for (std::uint32_t q = 0; q < posting.qps; ++q) {
    const auto qp = (*bench)->qp(0, 1, q);
    if (!qp) return tl::unexpected(qp.error());
    for (std::uint32_t w = 0; w < warps; ++w) {
      const std::uint64_t i = std::uint64_t{q} * warps + w;
      (*bench)->add({.qp = *qp,
                     .lanes = std::min(kWarpLanes, threads - w * kWarpLanes),
                     .per_doorbell = posting.per_doorbell,
                     .requests = posting.requests * (i + 1) / all - posting.requests * i / all,
                     .request = request,
                     .warps_share = warps > 1});
    }
  }
  return (*bench)->run();
}

Posting posting_of(const PublishedFigure& f, std::uint32_t per_doorbell) {
  Posting p;
  p.qps = count(f, "qps", 1);
  p.threads = count(f, "threads", p.qps);
  p.per_doorbell = count(f, "per_doorbell", per_doorbell);
  p.requests = static_cast<std::uint64_t>(f.experiment.number("reads", kRateRequests));
  return p;
}

Result<Outcome> write_rate(const PublishedFigure& f, const Profile& profile) {
  Posting posting = posting_of(f, 1);
  posting.requests = std::max<std::uint64_t>(posting.requests, 1000 * posting.qps);
  const auto timing = post(profile, posting, write_of(f));
  if (!timing) return tl::unexpected(timing.error());
  return rate_of(timing->steady_per_second());
}

Result<Outcome> read_rate(const PublishedFigure& f, const Profile& profile) {
  const auto timing = post(profile, posting_of(f, 16), read_of(f));
  if (!timing) return tl::unexpected(timing.error());
  // A stated number of reads is one fetch, with its first and last latency.
  return rate_of(f.experiment.numbers.contains("reads") ? timing->per_second()
                                                        : timing->steady_per_second());
}

/// The reference's issue: every lane of a block's warps gets and rings for itself.
Result<Outcome> fetch(const PublishedFigure& f, const Profile& profile) {
  Posting posting = posting_of(f, 1);
  posting.threads = posting.qps * kWarpLanes;
  const auto timing = post(profile, posting, read_of(f));
  if (!timing) return tl::unexpected(timing.error());
  return rate_of(timing->per_second());
}

Result<Outcome> read_bandwidth(const PublishedFigure& f, const Profile& profile) {
  Posting posting = posting_of(f, 1);
  posting.requests = posting.qps;  // one large read each
  Request read = read_of(f);
  read.bytes /= posting.qps;
  const auto timing = post(profile, posting, read);
  if (!timing) return tl::unexpected(timing.error());
  return bandwidth_of(read.bytes * posting.qps, timing->end);
}

/// The fewest full QPs that bring the NIC to 99 % of its read rate.
Result<Outcome> reads_in_flight(const PublishedFigure& f, const Profile& profile) {
  const std::uint32_t each = profile.nic.outstanding_reads;
  const double wanted = 0.99 * profile.nic.read_rate.value;
  std::uint32_t low = 1, high = 128;
  while (low < high) {
    const std::uint32_t qps = (low + high) / 2;
    const auto timing = post(profile, {.qps = qps, .threads = qps, .per_doorbell = 16}, read_of(f));
    if (!timing) return tl::unexpected(timing.error());
    (timing->steady_per_second() >= wanted ? high : low) =
        timing->steady_per_second() >= wanted ? qps : qps + 1;
  }
  return Outcome{static_cast<double>(low) * each, ""};
}

/// The first power of two that brings 16 contexts, one thread each, to 90 % of 24.8 GB/s.
Result<Outcome> payload_for_90_percent(const PublishedFigure&, const Profile& profile) {
  const double wanted = 0.9 * 24.8e9;
  for (std::uint64_t bytes = 8; bytes <= 1 << 20; bytes *= 2) {
    const Request write{.kind = bytes <= 64 ? RequestKind::write_inline : RequestKind::write,
                        .bytes = bytes};
    const auto timing = post(profile, {.qps = 16, .threads = 16, .requests = 8000}, write);
    if (!timing) return tl::unexpected(timing.error());
    if (timing->steady_per_second() * static_cast<double>(bytes) >= wanted) {
      return Outcome{static_cast<double>(bytes), ""};
    }
  }
  return Outcome{{}, "no payload up to 1 MiB reaches it"};
}

Result<Outcome> probe_under_load(const PublishedFigure& f, const Profile& profile) {
  auto bench = IssueBench::create(profile, 2);
  if (!bench) return tl::unexpected(bench.error());
  const auto there = (*bench)->qp(0, 1), back = (*bench)->qp(1, 0);
  if (!there || !back) return tl::unexpected((there ? back : there).error());
  constexpr std::uint64_t kWithoutEnd = 1 << 20;
  for (const sim::QpId qp : {*there, *back}) {
    for (std::uint32_t sm = 0; sm < count(f, "sms", 64); ++sm) {
      (*bench)->add({.qp = qp, .requests = kWithoutEnd, .request = write_of(f), .sms_share = true});
    }
  }
  const auto took = (*bench)->ping_pong(*there, *back, write_of(f), true);
  if (!took) return tl::unexpected(took.error());
  return time_of(*took);
}

/// Writes a second of one NIC with `connections` of them in use, each by a thread of its own.
Result<double> connected_rate(const Profile& profile, std::uint32_t connections, bool all_send,
                              const Request& write) {
  constexpr std::uint32_t kRanks = 9;
  auto bench = IssueBench::create(profile, kRanks);
  if (!bench) return tl::unexpected(bench.error());
  const std::uint64_t each = std::max<std::uint64_t>(20'000 / connections, 16);
  for (std::uint32_t r = 0; r < (all_send ? kRanks : 1); ++r) {
    for (std::uint32_t i = 0; i < connections; ++i) {
      const std::uint32_t peer = (r + 1 + i % (kRanks - 1)) % kRanks;
      const auto qp = (*bench)->qp(r, peer, i / (kRanks - 1));
      if (!qp) return tl::unexpected(qp.error());
      (*bench)->add({.qp = *qp, .per_doorbell = 16, .requests = each, .request = write});
    }
  }
  const auto timing = (*bench)->run();
  if (!timing) return tl::unexpected(timing.error());
  return timing->steady_per_second() / (all_send ? kRanks : 1);
}

Result<Outcome> connections(const PublishedFigure& f, const Profile& profile) {
  const bool all_send = f.experiment.word("mode", "send") != "send";
  const auto rate = connected_rate(profile, count(f, "connections", 64), all_send, write_of(f));
  if (!rate) return tl::unexpected(rate.error());
  return rate_of(*rate);
}

constexpr std::uint32_t kFewConnections = 256;

Result<Outcome> connections_ratio(const PublishedFigure& f, const Profile& profile) {
  const auto few = connected_rate(profile, kFewConnections, true, write_of(f));
  const auto many = connected_rate(profile, count(f, "connections", 3000), true, write_of(f));
  if (!few || !many) return tl::unexpected((few ? many : few).error());
  return Outcome{*many / *few, ""};
}

/// The first number, to 25, at which the rate lies 5 % below that of few connections.
Result<Outcome> connections_knee(const PublishedFigure& f, const Profile& profile) {
  const auto few = connected_rate(profile, kFewConnections, true, write_of(f));
  if (!few) return tl::unexpected(few.error());
  std::uint32_t low = 500, high = 3000;
  while (high - low > 25) {
    const std::uint32_t at = (low + high) / 2;
    const auto rate = connected_rate(profile, at, true, write_of(f));
    if (!rate) return tl::unexpected(rate.error());
    (*rate < 0.95 * *few ? high : low) = at;
  }
  return Outcome{static_cast<double>(high), ""};
}

Result<Outcome> floor(const PublishedFigure& f, const Profile& profile) {
  model::FetchLoad load;
  load.row = Bytes{static_cast<std::uint64_t>(f.experiment.number("bytes", 256))};
  load.rdma_reads = static_cast<std::uint64_t>(f.experiment.number("reads", 0));
  const std::string name = f.experiment.word("floor", "");
  for (const model::Floor& one : model::floors(load, profile)) {
    if (one.name == name) return time_of(one.time);
  }
  return fail(ErrorCode::invalid_argument, f.id, ": no floor '", name, "'");
}

Result<Outcome> copy(const PublishedFigure& f, const Profile& profile) {
  auto bench = IssueBench::create(profile, 2);
  if (!bench) return tl::unexpected(bench.error());
  const auto bytes = static_cast<std::uint64_t>(f.experiment.number("bytes", 1 << 20));
  const auto took = (*bench)->gather({{.reader = {0},
                                       .owner = {1},
                                       .path = sim::LoadPath::nvlink,
                                       .mover = sim::Mover::copy_engine,
                                       .rows = 1,
                                       .row_bytes = bytes}},
                                     0);
  if (!took) return tl::unexpected(took.error());
  return bandwidth_of(bytes, *took);
}

Result<Outcome> gather(const PublishedFigure& f, const Profile& profile) {
  constexpr std::uint64_t kGroups = 64, kGroupBytes = 256, kIndexBytes = 8;
  auto bench = IssueBench::create(profile, 2);
  if (!bench) return tl::unexpected(bench.error());
  const std::string memory = f.experiment.word("memory", "peer");
  const auto rows = static_cast<std::uint64_t>(f.experiment.number("rows", 12'288));
  const std::uint32_t blocks = count(f, "blocks", 132);
  const std::uint32_t row_bytes = count(f, "row_bytes", 256);
  std::vector<sim::LoadRequest> loads;
  for (std::uint32_t sm = 0; sm < blocks; ++sm) {
    sim::LoadRequest load;
    load.reader = Rank{0};
    load.owner = Rank{memory == "peer" ? 1u : 0u};
    load.path = memory == "peer"  ? sim::LoadPath::nvlink
                : memory == "own" ? sim::LoadPath::own
                                  : sim::LoadPath::host;
    load.rows = rows * (sm + 1) / blocks - rows * sm / blocks;
    load.row_bytes = row_bytes;
    load.sm = sm;
    load.spread = count(f, "touched_mib", 0) * kMiB;
    load.in_flight = Bytes{kGroups * kGroupBytes * count(f, "rows_in_flight", 8)};
    if (load.rows > 0) loads.push_back(load);
    if (load.rows > 0 && count(f, "both", 0) != 0) {
      std::swap(load.reader, load.owner);
      loads.push_back(load);
    }
  }
  auto took = (*bench)->gather(loads, kIndexBytes);
  if (!took) return tl::unexpected(took.error());
  if (count(f, "launch", 0) != 0) *took += profile.gpu.kernel_launch + profile.gpu.kernel_drain;
  return f.quantity == "time" ? time_of(*took) : bandwidth_of(rows * row_bytes, *took);
}

using Experiment = Result<Outcome> (*)(const PublishedFigure&, const Profile&);
const std::map<std::string, Experiment, std::less<>>& table() {
  static const std::map<std::string, Experiment, std::less<>> kTable{
      {"single_write", single_write},
      {"single_read", single_read},
      {"write_rate", write_rate},
      {"read_rate", read_rate},
      {"read_bandwidth", read_bandwidth},
      {"reads_in_flight", reads_in_flight},
      {"payload_for_90_percent", payload_for_90_percent},
      {"probe_under_load", probe_under_load},
      {"connections", connections},
      {"connections_ratio", connections_ratio},
      {"connections_knee", connections_knee},
      {"floor", floor},
      {"fetch", fetch},
      {"copy", copy},
      {"gather", gather},
      {"expert_parallel", expert_parallel},
  };
  return kTable;
}

}  // namespace

Result<Outcome> reproduce(const PublishedFigure& figure, const Profile& profile) {
  const auto found = table().find(figure.experiment.name);
  if (found == table().end()) {
    return fail(ErrorCode::invalid_argument, figure.id, ": no experiment '", figure.experiment.name,
                "'");
  }
  return found->second(figure, profile);
}

Result<std::vector<model::ComparedFigure>> compare(std::span<const PublishedFigure> figures) {
  std::map<std::string, Profile> profiles;
  std::vector<model::ComparedFigure> rows;
  for (const PublishedFigure& figure : figures) {
    auto found = profiles.find(figure.profile);
    if (found == profiles.end()) {
      auto profile = model::load_profile(figure.profile, model::default_profile_dirs());
      if (!profile) return within(profile.error(), figure.id);
      found = profiles.emplace(figure.profile, std::move(*profile)).first;
    }
    auto outcome = reproduce(figure, found->second);
    if (!outcome) return within(outcome.error(), figure.id);
    rows.push_back({figure, outcome->model, std::move(outcome->note)});
  }
  return rows;
}

}  // namespace engram::validate
