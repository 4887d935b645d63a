// A result with every field set, for tests of what is written about it.
#pragma once

#include <fmt/format.h>

#include "engram/tools/run_result.hpp"

namespace engram::tools::tests {

inline RunResult sample_result() {
  RunResult r;
  r.operation = "fetch";
  r.backend = "sim";
  r.profile = "h100-cx7-400";
  r.fidelity = "message";
  r.fidelity_reason = "196,608 requests are under a million";
  r.ranks = 16;
  r.seed = 1;
  r.version = "0.1.0";
  r.verified = true;
  r.repeats = 5;
  r.time = {Nanos{284'312}, Nanos{281'004}, Nanos{290'777}};
  r.issue = Nanos{131'250};
  r.wait = Nanos{153'062};
  r.requests = 196'608;
  r.doorbells = 2'048;
  r.payload = Bytes{196'608 * 256};
  r.wire = Bytes{61'865'984};
  r.logical_rate = gigabytes_per_second(11.0639);
  r.wire_rate = gigabytes_per_second(13.6001);
  r.message_rate = millions_per_second(43.2201);
  r.stages = {{"issue", Nanos{131'250}}, {"wait", Nanos{148'062}}, {"barrier", Nanos{5'000}}};
  r.sms = 4;
  r.qps = 29;
  r.paths.local = {12'288, Bytes{12'288 * 256}};
  r.paths.nvlink = {0, Bytes{0}};
  r.paths.host = {86'016, Bytes{86'016 * 256}};
  r.paths.rdma = {98'304, Bytes{98'304 * 256}};
  r.bound = "message_rate";
  r.floors = {{"message_rate", Nanos{273'067}},
              {"line", Nanos{62'915}},
              {"outstanding_reads", Nanos{120'000}},
              {"issue", Nanos{98'304}}};
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    r.links.push_back({fmt::format("nic{}->leaf{}", rank, rank % 8), 0.12 + 0.05 * rank,
                       Bytes{3'866'624 + 1000ull * rank}});
    const Nanos issued{120'000 + 750 * std::int64_t{rank}};
    const Nanos done{270'000 + 620 * std::int64_t{rank}};
    r.timeline.push_back({Rank{rank}, "issue", Nanos{0}, issued});
    r.timeline.push_back({Rank{rank}, "wait", issued, done});
    r.timeline.push_back({Rank{rank}, "barrier", done, Nanos{284'312}});
  }
  r.warnings = {"2 of 4 spines carry nothing: routing is \"ecmp\" and 8 flows share 2 hashes"};
  return r;
}

}  // namespace engram::tools::tests
