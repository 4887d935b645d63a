// Ten thousand schedules of one property: whatever order doorbells, completions and turns of the
// NIC come in, each byte of a fetch is right, no queue overflows, and nothing waits for ever.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>

#include "support/backends.hpp"
#ifdef ENGRAM_HAVE_SIMGRID
#include "engram/sim/fork.hpp"
#endif

namespace engram::test {
namespace {

constexpr std::uint64_t kSchedules = 10'000, kTogether = 200;

FetchCase scheduled(std::uint64_t seed) {
  FetchCase c;
  c.num_rdma = 2;
  c.num_nvlink = 2;
  c.hybrid = c.compat = true;  // all reads go through queues
  c.layers = {{200, 16}, {61, 5}};
  c.tokens = 12;
  c.entries = 4;
  c.qps = 2;
  c.depth_log2 = 5;  // queues fill: warps wait for slots
  c.flush_depth = 16;
  c.reads_in_flight = 4;
  c.fetches_in_flight = 2;
  c.seed = seed;
  return c;
}

/// Trace hashes of schedules [first, first + kTogether).
Result<std::string> explore(const BackendKind& kind, std::uint64_t first) {
  std::string hashes;
  for (std::uint64_t seed = first; seed < first + kTogether; ++seed) {
    const FetchCase c = scheduled(seed);
    const auto stats = run_case(*kind.make(c), c);
    std::ostringstream text;
    text << c;
    if (!stats) return within(stats.error(), text.str());
    if (stats->completions != stats->requests || stats->max_queued > 1ull << c.depth_log2) {
      return fail(ErrorCode::internal, text.str(), ": ", stats->completions, " of ",
                  stats->requests, " requests completed, ", stats->max_queued, " in one queue");
    }
    hashes.append(reinterpret_cast<const char*>(&stats->trace_hash), sizeof stats->trace_hash);
  }
  return hashes;
}

class Exploration : public testing::TestWithParam<BackendKind> {};

TEST_P(Exploration, TenThousandSchedulesDeliverEveryByte) {
  const auto begin = std::chrono::steady_clock::now();
  std::set<std::uint64_t> traces;
  for (std::uint64_t first = 1; first <= kSchedules; first += kTogether) {
    const auto here = [&] { return explore(GetParam(), first); };
#ifdef ENGRAM_HAVE_SIMGRID
    const auto hashes = sim::run_forked(here);  // SimGrid keeps state from engine to engine
#else
    const auto hashes = here();
#endif
    ASSERT_TRUE(hashes) << hashes.error().message;
    for (std::size_t at = 0; at < hashes->size(); at += sizeof(std::uint64_t)) {
      std::uint64_t hash = 0;
      std::memcpy(&hash, hashes->data() + at, sizeof hash);
      traces.insert(hash);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: %llu schedules, %zu traces, %.0f s\n", GetParam().name.c_str(),
              static_cast<unsigned long long>(kSchedules), traces.size(), took.count());
  EXPECT_GE(traces.size(), kSchedules * 99 / 100);
  EXPECT_LT(took.count(), 300);
}

INSTANTIATE_TEST_SUITE_P(Backends, Exploration, testing::ValuesIn(backends()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace engram::test
