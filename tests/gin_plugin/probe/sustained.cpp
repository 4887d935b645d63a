#include <algorithm>
#include <random>

#include "tests.hpp"

namespace gin_probe {
namespace {

constexpr int kContexts = 8, kMostRows = 512;

/// Sizes and places of one round's rows, the same on all ranks.
std::vector<Row> random_rows(std::mt19937& random, bool put) {
  auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::vector<Row> rows;
  const int count = 1 + static_cast<int>(below(kMostRows));
  uint64_t at = kTarget;
  for (int i = 0; i < count; ++i) {
    const uint32_t kind = below(16);
    const uint32_t size = 1 + below(kind == 0 ? 1 << 20 : kind < 4 ? 8192 : 512);
    if (at + size + kGuardBytes > kScratch) break;
    const uint64_t from = below(kSourceBytes - (2u << 20));
    rows.push_back(put ? Row{at, from, size} : Row{from, at, size});
    at += size + kGuardBytes + below(16);
  }
  return rows;
}

uint64_t bytes_of(const std::vector<Row>& rows) {
  uint64_t sum = 0;
  for (const Row& row : rows) sum += row.size;
  return sum;
}

struct Growth {
  Holdings begin, end;
  [[nodiscard]] std::string text() const {
    return ",\"begin\":{" + begin.text() + "},\"end\":{" + end.text() + "}";
  }
};

/// More of anything than at the beginning is a leak; `slack` covers what a process's heap or the
/// driver's pools may keep.
bool grew(const Growth& g, long slack_kb) {
  return g.end.files > g.begin.files || g.end.threads > g.begin.threads ||
         g.end.resident_kb > g.begin.resident_kb + slack_kb ||
         g.end.gpu_used_kb > g.begin.gpu_used_kb + slack_kb;
}

}  // namespace

void mixed(Session& s) {
  s.make_dev_comm(kContexts, false);
  std::mt19937 random(s.options().seed);
  must(cudaMemset(s.data() + kScratch, 0, 1 << 20), "scratch");
  must(cudaMemset(s.data() + kTarget, kPoison, kScratch - kTarget), "poison");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(s.options().seconds);
  constexpr uint64_t kWarmUp = 20;  // rounds, then what is held is looked at for the first time
  uint64_t bytes = 0, operations = 0, small = 0, rounds = 0;
  unsigned long long wrong = 0;
  Growth growth;
  Row* device = nullptr;
  must(cudaMalloc(&device, kMostRows * sizeof(Row)), "rows");
  for (float more = 1; more != 0;) {
    const bool put = random() % 2 == 1;
    const std::vector<Row> rows = random_rows(random, put);
    const int count = static_cast<int>(rows.size());
    const int threads = 1 << random() % 8;
    const unsigned smalls = random() % 4;
    must(cudaMemcpyAsync(device, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice,
                         s.stream()),
         "rows");
    s.barrier();
    if (put) {
      put_rows(s.target(false), device, count, kContexts, threads, 0, s.next_signal(), s.report(),
               s.stream());
    } else {
      get_rows(s.target(false), device, count, kContexts, threads, 1, s.report(), s.stream());
    }
    for (unsigned i = 0; i < smalls; ++i) {
      small_operations(s, static_cast<int>(random() % kContexts), random(), false);
    }
    s.barrier();
    check_rows(s.data(), device, count, put, put ? s.before(false) : s.after(false), s.report(),
               s.stream());
    // Poison again what was written, for the next round.
    const Row& last = rows.back();
    const uint64_t until = (put ? last.remote : last.local) + last.size;
    must(cudaMemsetAsync(s.data() + kTarget, kPoison, until - kTarget, s.stream()), "poison");
    must(cudaStreamSynchronize(s.stream()), "mixed");
    bytes += bytes_of(rows);
    operations += rows.size();
    small += smalls;
    wrong = s.report()->wrong + s.report()->timeouts;
    // All ranks stop together, when the first wants to.
    more = s.least(std::chrono::steady_clock::now() < end && wrong == 0 ? 1 : 0);
    if (++rounds == kWarmUp) growth.begin = holdings();
  }
  growth.end = holdings();
  must(cudaFree(device), "rows");
  constexpr long kSlackKb = 16 * 1024;
  const bool leak = rounds <= kWarmUp || grew(growth, kSlackKb);
  if (leak) ++s.report()->wrong;
  s.verdict("mixed", ",\"seconds\":" + std::to_string(s.options().seconds) + ",\"rounds\":" +
                         std::to_string(rounds) + ",\"operations\":" + std::to_string(operations) +
                         ",\"small_operation_sets\":" + std::to_string(small) +
                         ",\"bytes\":" + std::to_string(bytes) +
                         ",\"leak\":" + (leak ? "true" : "false") + growth.text());
}

void churn(Session& s) {
  constexpr int kWarmUp = 3;
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 256; ++i) rows.push_back({i * 512ull, kTarget + i * 512ull, 256});
  const DeviceRows device(rows);
  Growth growth;
  for (int round = 0; round < s.options().rounds; ++round) {
    s.disconnect();
    s.connect();
    s.make_dev_comm(4, false);
    s.barrier();
    get_rows(s.target(false), device.data(), device.count(), 4, 32, 1, s.report(), s.stream());
    check_rows(s.data(), device.data(), device.count(), false, s.after(false), s.report(),
               s.stream());
    s.barrier();
    if (round == kWarmUp) growth.begin = holdings();
  }
  growth.end = holdings();
  // NCCL's own heap is in here: measured without the plugin it grows too.
  const long slack_kb = 2L * 1024 * s.options().rounds;
  const bool leak = s.options().rounds <= kWarmUp + 1 || grew(growth, slack_kb);
  if (leak) ++s.report()->wrong;
  s.verdict("churn", ",\"communicators\":" + std::to_string(s.options().rounds) +
                         ",\"leak\":" + (leak ? "true" : "false") + growth.text());
}

}  // namespace gin_probe
