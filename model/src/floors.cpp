#include "engram/model/floors.hpp"

#include <algorithm>

#include "engram/core/result.hpp"
#include "engram/model/quantity.hpp"

namespace engram::model {
namespace {

/// Collects the floors of resources that are used and that the profile limits.
class Floors {
 public:
  void rate(const char* name, std::uint64_t n, const char* what, PerSecond limit) {
    if (n == 0 || !(limit.value > 0)) return;
    list.push_back({name, time_for(n, limit), fmt::format("{} {} / {}", n, what, to_text(limit))});
  }
  void bytes(const char* name, Bytes size, BytesPerSecond limit) {
    if (size.count == 0 || !(limit.value > 0)) return;
    list.push_back({name, size / limit, fmt::format("{} B / {}", size.count, to_text(limit))});
  }
  std::vector<Floor> list;
};

}  // namespace

Nanos read_in_flight(const Profile& p, bool from_host) {
  const Nanos links = 2 * p.network.cable_latency + p.network.hop_latency;
  return 2 * links + p.nic.response_latency + p.nic.read_latency +
         (from_host ? p.pcie.host_latency : p.pcie.gpu_latency);
}

Bytes nvlink_wire_bytes(Bytes row, const NvlinkProfile& nvlink) {
  if (nvlink.load_payload == 0) return row;
  const std::uint64_t requests = (row.count + nvlink.load_payload - 1) / nvlink.load_payload;
  return {row.count + requests * nvlink.load_header};
}

std::vector<Floor> floors(const FetchLoad& load, const Profile& p) {
  Floors f;
  f.rate("message_rate", load.rdma_reads, "reads", p.nic.read_rate);
  f.rate("responder_rate", load.served_reads, "reads served", p.nic.responder_rate);
  f.rate("doorbell_rate", load.doorbells, "doorbells", p.nic.doorbell_rate);
  if (load.qps > 0) {
    f.rate("qp_rate", load.rdma_reads, "reads", PerSecond{p.nic.qp_rate.value * load.qps});
    const Nanos held = std::min(read_in_flight(p, true), read_in_flight(p, false));
    const double slots = static_cast<double>(load.qps) * p.nic.outstanding_reads;
    if (load.rdma_reads > 0 && held > Nanos{0} && slots > 0) {
      const PerSecond rate{slots / (static_cast<double>(held.count()) * 1e-9)};
      f.list.push_back({"outstanding_reads", time_for(load.rdma_reads, rate),
                        fmt::format("{} reads x {} / ({} QPs x {})", load.rdma_reads, to_text(held),
                                    load.qps, p.nic.outstanding_reads)});
    }
  }
  const std::uint64_t busier = std::max(load.rdma_reads, load.served_reads);
  f.bytes("line", busier * load.row, BytesPerSecond{p.nic.port.value * p.nic.ports});
  f.bytes("pcie", busier * load.row, p.pcie.rate);
  f.bytes("nvlink", load.nvlink_rows * nvlink_wire_bytes(load.row, p.nvlink), p.nvlink.raw);
  f.bytes("host_memory", load.host_rows * load.row, p.memory.host_link);
  f.bytes("memory", load.local_rows * load.row, p.memory.hbm);
  if (load.sms > 0) {
    f.bytes("nvlink", load.nvlink_rows * load.row,
            BytesPerSecond{p.nvlink.per_sm.value * load.sms});
    f.bytes("memory", load.local_rows * load.row,
            BytesPerSecond{p.memory.hbm_per_sm.value * load.sms});
  }
  if (load.issue_threads > 0 && load.rdma_reads > 0) {
    const auto share = [&](std::uint64_t n) {
      return static_cast<std::int64_t>(n / load.issue_threads);
    };
    f.list.push_back(
        {"issue", share(load.rdma_reads) * p.issue.build + share(load.doorbells) * p.issue.doorbell,
         fmt::format("({} reads x {} + {} doorbells x {}) / {} threads", load.rdma_reads,
                     to_text(p.issue.build), load.doorbells, to_text(p.issue.doorbell),
                     load.issue_threads)});
  }
  // Of two floors of one name the larger stays.
  std::ranges::stable_sort(f.list, std::greater{}, &Floor::time);
  std::vector<Floor> result;
  for (Floor& floor : f.list) {
    if (std::ranges::find(result, floor.name, &Floor::name) == result.end()) {
      result.push_back(std::move(floor));
    }
  }
  return result;
}

}  // namespace engram::model
