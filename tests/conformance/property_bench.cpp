// Whole property runs a second on loopback: 16 ranks that write a table and fetch 2,000 rows
// through the network between them, every byte checked.
#include <benchmark/benchmark.h>

#include "engram/loopback/loopback.hpp"
#include "support/fetch_case.hpp"

namespace engram::test {
namespace {

void property_run(benchmark::State& state) {
  FetchCase c;
  c.num_rdma = 16;
  c.layers = {{4096, 16}};
  c.tokens = 25;
  c.entries = 5;  // 125 a rank, 2,000 in all
  c.compat = true;
  c.qps = 4;
  for (auto _ : state) {
    ++c.seed;
    loopback::LoopbackOptions options;
    options.grid = *c.grid();
    options.seed = c.seed;
    const auto stats = run_case(*loopback::make_loopback(options), c);
    if (!stats) state.SkipWithError(stats.error().message.c_str());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(property_run)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace engram::test

BENCHMARK_MAIN();
