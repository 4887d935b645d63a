#include "device.cuh"
#include "tests.hpp"

namespace gin_probe {
namespace {

/// One thread. `base` = byte offset of a scratch line in the window, different for each context.
/// Results land in the peer's scratch.
__global__ void small_ops(Target target, int context, uint64_t base, uint32_t turn,
                          Report* report) {
  const ncclDevComm& comm = target.comm;
  const ncclWindow_t window = target.window;
  const int peer = target.peer;
  ncclGin gin(comm, context);
  const ncclTeam team = team_of(target);
  const ncclCoopThread me;
  auto expect = [&](bool right) {
    if (!right) atomicAdd_system(&report->wrong, 1ull);
  };
  char* scratch = static_cast<char*>(ncclGetLocalPointer(window, base));
  const uint64_t value = 0x1122334455667788ull + turn * 0x0101010101010101ull;
  // putValue of each size, with a strong signal on the last.
  gin.putValue(team, peer, window, base + 0, static_cast<uint8_t>(value));
  gin.putValue(team, peer, window, base + 2, static_cast<uint16_t>(value));
  gin.putValue(team, peer, window, base + 4, static_cast<uint32_t>(value));
  gin.putValue(team, peer, window, base + 8, value, ncclGin_StrongSignalAdd{1, 5});
  wait_signal(gin, 1, 5, report);
  expect(*reinterpret_cast<volatile uint8_t*>(scratch) == static_cast<uint8_t>(value));
  expect(*reinterpret_cast<volatile uint16_t*>(scratch + 2) == static_cast<uint16_t>(value));
  expect(*reinterpret_cast<volatile uint32_t*>(scratch + 4) == static_cast<uint32_t>(value));
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 8) == value);
  expect(gin.readSignal(1) == 5);
  // Weak signals, add and increment, with a put.
  gin.put(team, peer, window, base + 64, window, base, 16, ncclGin_WeakSignalAdd{2, 7});
  wait_signal(gin, 2, 7, report);
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 72) == value);
  gin.signal(team, peer, ncclGin_WeakSignalInc{3});
  gin.signal(team, peer, ncclGin_StrongSignalInc{3});
  wait_signal(gin, 3, 2, report);
  // VA signals on the window.
  gin.put(team, peer, window, base + 128, window, base, 16,
          ncclGin_StrongVASignalAdd{window, base + 256, 11});
  gin.signal(team, peer, ncclGin_WeakVASignalInc{window, base + 256});
  note_timeout(report, gin.waitSignal(me, window, base + 256, 12, 64, cuda::memory_order_acquire,
                                      kLimitCycles));
  expect(*reinterpret_cast<volatile uint64_t*>(scratch + 136) == value);
  expect(gin.readSignal(window, base + 256) == 12);
  // Counters: a put's source is free again once the counter tells.
  for (uint64_t round = 1; round <= 2; ++round) {
    gin.put(team, peer, window, base + 192, window, base, 16, ncclGin_None{},
            ncclGin_WeakCounterInc{1});
    gin.put(team, peer, window, base + 208, window, base, 16, ncclGin_None{},
            ncclGin_WeakCounterInc{1});
    note_timeout(report, gin.waitCounter(me, 1, 2, 56, cuda::memory_order_acquire, kLimitCycles));
    expect(gin.readCounter(1) == 2);
    gin.resetCounter(1);
    expect(gin.readCounter(1) == 0);
  }
  note_timeout(report, gin.flush(me, cuda::memory_order_acquire, ncclGin_None{}, kLimitCycles));
  auto meet = [&] {
    ncclGinBarrierSession<ncclCoopThread> barrier(
        me, gin, team, target.rail ? comm.railGinBarrier : comm.worldGinBarrier, context);
    note_timeout(report,
                 barrier.sync(me, cuda::memory_order_acq_rel,
                              ncclGinFenceLevel::Put | ncclGinFenceLevel::Get, kLimitCycles));
  };
  // Both sides have seen all: then the signals can be set back.
  meet();
  for (int signal = 1; signal <= 3; ++signal) {
    gin.resetSignal(signal);
    expect(gin.readSignal(signal) == 0);
  }
  gin.resetSignal(window, base + 256);
  meet();
}

void rows_test(Session& s, const char* name, bool put, int contexts, bool rail,
               const std::vector<Row>& rows) {
  const DeviceRows device(rows);
  must(cudaMemset(s.data() + kTarget, kPoison, kScratch - kTarget), "poison");
  s.barrier();
  if (put) {
    put_rows(s.target(rail), device.data(), device.count(), contexts, 32, 0, s.next_signal(),
             s.report(), s.stream());
  } else {
    get_rows(s.target(rail), device.data(), device.count(), contexts, 32, 1, s.report(),
             s.stream());
  }
  must(cudaStreamSynchronize(s.stream()), name);
  s.barrier();
  check_rows(s.data(), device.data(), device.count(), put, put ? s.before(rail) : s.after(rail),
             s.report(), s.stream());
  s.verdict(std::string(name) + "/ctx" + std::to_string(contexts) + (rail ? "/rail" : "/full"));
}

std::vector<Row> turned(std::vector<Row> rows, bool put) {
  if (put) {
    for (Row& row : rows) std::swap(row.remote, row.local);
  }
  return rows;
}

}  // namespace

void operations(Session& s, int contexts, bool rail) {
  s.make_dev_comm(contexts, rail);
  if (rail && s.rail_ranks() < 2) return s.say("{\"skip\":\"rail has one rank\"}");
  std::vector<Row> rows, odd, large;
  for (uint32_t i = 0; i < 64; ++i) {
    rows.push_back({(i * 7919ull % 65536) * 256, kTarget + i * 512ull, 256});
    // Bytes of any size at any place, unaligned against one another.
    odd.push_back({i * 4099ull, kTarget + i * 8191ull, 1 + i * 37});
  }
  for (uint32_t i = 0; i < 4; ++i)
    large.push_back({i << 20, kTarget + (uint64_t{i} << 22), (1u << 20) + 64 * i});
  for (const bool put : {false, true}) {
    rows_test(s, put ? "put64x256" : "get64x256", put, contexts, rail, turned(rows, put));
    rows_test(s, put ? "put_odd_sizes" : "get_odd_sizes", put, contexts, rail, turned(odd, put));
    rows_test(s, put ? "put_1MiB" : "get_1MiB", put, contexts, rail, turned(large, put));
    rows_test(s, put ? "put_one" : "get_one", put, contexts, rail, turned({rows[3]}, put));
  }
  must(cudaMemset(s.data() + kScratch, 0, 1 << 20), "scratch");
  s.barrier();
  for (int context = 0; context < contexts; ++context) small_operations(s, context, context, rail);
  s.verdict("small_ops/ctx" + std::to_string(contexts) + (rail ? "/rail" : "/full"));
}

void small_operations(Session& s, int context, unsigned turn, bool rail) {
  small_ops<<<1, 1, 0, s.stream()>>>(s.target(rail), context, kScratch + context * 4096ull, turn,
                                     s.report());
}

void graph(Session& s) {
  constexpr int kLaunches = 50, kContexts = 4;
  s.make_dev_comm(kContexts, false);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 2048; ++i) {
    rows.push_back({(i * 7919ull % 65536) * 256, kTarget + i * 512ull, 256});
  }
  const DeviceRows device(rows);
  must(cudaMemset(s.data() + kScratch, 0, 1 << 20), "scratch");
  s.barrier();
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t runnable = nullptr;
  must(cudaStreamBeginCapture(s.stream(), cudaStreamCaptureModeGlobal), "capture");
  must(cudaMemsetAsync(s.data() + kTarget, kPoison, 2 << 20, s.stream()), "poison");
  get_rows(s.target(false), device.data(), device.count(), kContexts, 64, 1, s.report(),
           s.stream());
  check_rows(s.data(), device.data(), device.count(), false, s.after(false), s.report(),
             s.stream());
  for (int context = 0; context < kContexts; ++context) {
    small_operations(s, context, 77, false);
  }
  must(cudaStreamEndCapture(s.stream(), &captured), "capture");
  must(cudaGraphInstantiate(&runnable, captured, 0), "instantiate");
  const double took = s.ms([&] {
    for (int i = 0; i < kLaunches; ++i) must(cudaGraphLaunch(runnable, s.stream()), "launch");
  });
  s.verdict("cuda_graph", ",\"launches\":" + std::to_string(kLaunches) +
                              ",\"ms_each\":" + std::to_string(took / kLaunches));
  s.barrier();
  must(cudaGraphExecDestroy(runnable), "graph");
  must(cudaGraphDestroy(captured), "graph");
}

}  // namespace gin_probe
