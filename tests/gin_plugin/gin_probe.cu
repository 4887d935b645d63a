// Exercises NCCL's public device API, operation by operation, against expected bytes, and measures.
// One process a rank, forked here; which plugin serves it is up to the environment (see
// backends/gin_plugin/README.md). Prints one JSON line a finding; exit status 0 = all right.
#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gin_probe_kernels.cuh"

namespace {

constexpr size_t kWindowBytes = 512ull << 20;
constexpr int kSignals = 16, kCounters = 4;

using namespace gin_probe;

struct Options {
  int ranks = 2;
  int gpus = 2;
  std::string id_file = "/tmp/gin_probe.id";
  std::string run = "ops,speed";
  int seconds = 60;
  unsigned seed = 1;
  int hosts = 1;  // > 1: NCCL is told that so many hosts share the ranks
};

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::_Exit(3);
}
void must(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, ncclGetErrorString(result),
               ncclGetLastError(nullptr));
  std::_Exit(4);
}

class Probe {
 public:
  Probe(const Options& options, int rank) : o_(options), rank_(rank) {}
  int main();

 private:
  void connect();
  void make_dev_comm(int contexts, bool rail);
  void barrier();
  void ops(int contexts, bool rail);
  void speed();
  void crowd();
  void mixed();
  void errors();
  void killed();
  void segments();
  void rows_test(const char* name, bool put, int contexts, bool rail, std::vector<Row> rows);
  double launch_get(const std::vector<Row>& rows, int contexts, int threads, int repeat);
  void verdict(const std::string& name, const std::string& extra = "");
  template <class... Args>
  void say(const char* format, Args... args) {
    if (rank_ != 0) return;
    std::printf(format, args...);
    std::printf("\n");
    std::fflush(stdout);
  }
  int peer(bool rail) const {
    return rail ? (rail_rank_ + 1) % rail_size_ : (rank_ + 1) % o_.ranks;
  }
  int before(bool rail) const {
    return (rank_ + o_.ranks - 1) % o_.ranks;
    (void)rail;
  }
  uint32_t* words(uint64_t byte) { return reinterpret_cast<uint32_t*>(data_ + byte); }
  double ms(const std::function<void()>& work);

  Options o_;
  int rank_;
  ncclComm_t comm_ = nullptr;
  ncclDevComm dev_{};
  bool have_dev_ = false;
  char* data_ = nullptr;
  ncclWindow_t window_ = nullptr;
  Report* report_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int clock_khz_ = 0;
  int failures_ = 0;
  int rail_rank_ = 0, rail_size_ = 1;
  uint64_t signals_sent_[8] = {};
  uint64_t pings_ = 0;
  float* one_ = nullptr;
};

constexpr uint64_t kSource = 0, kSourceBytes = 192ull << 20;  // filled, read by all
constexpr uint64_t kTarget = 192ull << 20;                    // where data lands
constexpr uint64_t kScratch = 448ull << 20;

void Probe::connect() {
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(rank_ % std::min(devices, o_.gpus)), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  cudaDeviceGetAttribute(&clock_khz_, cudaDevAttrClockRate, rank_ % std::min(devices, o_.gpus));
  ncclUniqueId id;
  const std::string ready = o_.id_file + ".ready";
  if (rank_ == 0) {
    must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    FILE* file = std::fopen(o_.id_file.c_str(), "wb");
    std::fwrite(&id, sizeof id, 1, file);
    std::fclose(file);
    std::rename(o_.id_file.c_str(), ready.c_str());
  } else {
    for (int i = 0; access(ready.c_str(), R_OK) != 0; ++i) {
      if (i > 3000) std::_Exit(5);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FILE* file = std::fopen(ready.c_str(), "rb");
    if (std::fread(&id, sizeof id, 1, file) != 1) std::_Exit(5);
    std::fclose(file);
  }
  must(ncclCommInitRank(&comm_, o_.ranks, id, rank_), "ncclCommInitRank");
  ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
  must(ncclCommQueryProperties(comm_, &props), "ncclCommQueryProperties");
  int version = 0;
  ncclGetVersion(&version);
  say("{\"nccl\":%d,\"ginType\":%d,\"railedGinType\":%d,\"nLsaTeams\":%d,\"ranks\":%d}", version,
      props.ginType, props.railedGinType, props.nLsaTeams, o_.ranks);
  if (props.railedGinType == NCCL_GIN_TYPE_NONE) {
    std::fprintf(stderr, "no GIN: is the plugin set?\n");
    std::_Exit(6);
  }
  must(ncclMemAlloc(reinterpret_cast<void**>(&data_), kWindowBytes), "ncclMemAlloc");
  must(cudaMemset(data_, 0xEE, kWindowBytes), "memset");
  must(ncclCommWindowRegister(comm_, data_, kWindowBytes, &window_, NCCL_WIN_COLL_SYMMETRIC),
       "ncclCommWindowRegister");
  must(cudaMallocHost(&report_, sizeof(Report)), "report");
  must(cudaMalloc(&one_, sizeof(float)), "one");
  must(cudaMemset(one_, 0, sizeof(float)), "one");
  *report_ = {};
  fill<<<1024, 256, 0, stream_>>>(words(kSource), kSourceBytes / 4, rank_, 0);
  must(cudaStreamSynchronize(stream_), "fill");
}

void Probe::make_dev_comm(int contexts, bool rail) {
  if (have_dev_) must(ncclDevCommDestroy(comm_, &dev_), "ncclDevCommDestroy");
  ncclDevCommRequirements_t needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  needs.ginContextCount = contexts;
  needs.ginSignalCount = kSignals;
  needs.ginCounterCount = kCounters;
  needs.ginConnectionType = rail ? NCCL_GIN_CONNECTION_RAIL : NCCL_GIN_CONNECTION_FULL;
  needs.ginExclusiveContexts = true;
  needs.railGinBarrierCount = 8;
  if (!rail) needs.worldGinBarrierCount = 8;
  must(ncclDevCommCreate(comm_, &needs, &dev_), "ncclDevCommCreate");
  have_dev_ = true;
  const ncclTeam_t team = ncclTeamRail(comm_);
  rail_rank_ = team.rank;
  rail_size_ = team.nRanks;
  std::fill(std::begin(signals_sent_), std::end(signals_sent_), 0);
  pings_ = 0;
}

void Probe::barrier() {
  must(ncclAllReduce(one_, one_, 1, ncclFloat, ncclSum, comm_, stream_), "ncclAllReduce");
  must(cudaStreamSynchronize(stream_), "barrier");
}

void Probe::verdict(const std::string& name, const std::string& extra) {
  must(cudaStreamSynchronize(stream_), name.c_str());
  const bool right = report_->wrong == 0 && report_->timeouts == 0;
  if (!right) ++failures_;
  if (!right || rank_ == 0) {
    std::printf("{\"test\":\"%s\",\"rank\":%d,\"ok\":%s,\"wrong\":%llu,\"timeouts\":%llu%s}\n",
                name.c_str(), rank_, right ? "true" : "false", report_->wrong, report_->timeouts,
                extra.c_str());
    std::fflush(stdout);
  }
  *report_ = {};
}

double Probe::ms(const std::function<void()>& work) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, stream_);
  work();
  cudaEventRecord(end, stream_);
  must(cudaEventSynchronize(end), "timing");
  float result = 0;
  cudaEventElapsedTime(&result, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return result;
}

void Probe::rows_test(const char* name, bool put, int contexts, bool rail, std::vector<Row> rows) {
  Row* device = nullptr;
  must(cudaMalloc(&device, rows.size() * sizeof(Row)), "rows");
  must(cudaMemcpy(device, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice), "rows");
  must(cudaMemset(data_ + kTarget, 0xEE, kScratch - kTarget), "poison");
  barrier();
  const int whom = peer(rail);
  if (put) {
    for (int c = 0; c < contexts; ++c) ++signals_sent_[c];
    put_rows<<<contexts, 32, 0, stream_>>>(dev_, window_, whom, device,
                                           static_cast<int>(rows.size()), report_, rail, 0,
                                           signals_sent_[0]);
  } else {
    get_rows<<<contexts, 32, 0, stream_>>>(dev_, window_, whom, device,
                                           static_cast<int>(rows.size()), report_, rail, 1);
  }
  must(cudaStreamSynchronize(stream_), name);
  barrier();
  // A put's data comes from the rank before, a get's from the rank after.
  const int stride = rail ? o_.ranks / rail_size_ : 1;
  const int from = put ? (rank_ + o_.ranks - stride) % o_.ranks : (rank_ + stride) % o_.ranks;
  for (const Row& row : rows) {
    const uint64_t target = put ? row.remote : row.local;
    const uint64_t source = put ? row.local : row.remote;
    check<<<8, 256, 0, stream_>>>(words(target), row.size / 4, from, source / 4, 0, report_);
  }
  verdict(std::string(name) + "/ctx" + std::to_string(contexts) + (rail ? "/rail" : "/full"));
  cudaFree(device);
}

void Probe::ops(int contexts, bool rail) {
  make_dev_comm(contexts, rail);
  if (rail && rail_size_ < 2) return say("{\"skip\":\"rail has one rank\"}");
  std::vector<Row> rows, odd, large;
  for (uint32_t i = 0; i < 64; ++i) {
    rows.push_back({(i * 7919ull % 65536) * 256, kTarget + i * 256ull, 256});
    odd.push_back({i * 1000ull * 4, kTarget + i * 8192ull, 4 + i * 36});
  }
  for (uint32_t i = 0; i < 4; ++i)
    large.push_back({i << 20, kTarget + (uint64_t{i} << 22), (1u << 20) + 64 * i});
  for (const bool put : {false, true}) {
    auto turned = [&](std::vector<Row> list) {
      if (put) {
        for (Row& row : list) std::swap(row.remote, row.local);
      }
      return list;
    };
    rows_test(put ? "put64x256" : "get64x256", put, contexts, rail, turned(rows));
    rows_test(put ? "put_odd_sizes" : "get_odd_sizes", put, contexts, rail, turned(odd));
    rows_test(put ? "put_1MiB" : "get_1MiB", put, contexts, rail, turned(large));
    rows_test(put ? "put_one" : "get_one", put, contexts, rail, turned({rows[3]}));
  }
  must(cudaMemset(data_ + kScratch, 0, 1 << 20), "scratch");
  barrier();
  for (int context = 0; context < contexts; ++context) {
    small_ops<<<1, 1, 0, stream_>>>(dev_, window_, rank_, peer(rail), context,
                                    kScratch + context * 4096ull, context, report_, rail);
  }
  verdict("small_ops/ctx" + std::to_string(contexts) + (rail ? "/rail" : "/full"));
}

double Probe::launch_get(const std::vector<Row>& rows, int contexts, int threads, int repeat) {
  Row* device = nullptr;
  must(cudaMalloc(&device, rows.size() * sizeof(Row)), "rows");
  must(cudaMemcpy(device, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice), "rows");
  barrier();
  get_rows<<<contexts, threads, 0, stream_>>>(dev_, window_, peer(false), device,
                                              static_cast<int>(rows.size()), report_, false, 1);
  must(cudaStreamSynchronize(stream_), "warm up");
  barrier();
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    times.push_back(ms([&] {
      get_rows<<<contexts, threads, 0, stream_>>>(dev_, window_, peer(false), device,
                                                  static_cast<int>(rows.size()), report_, false,
                                                  repeat);
    }));
  }
  cudaFree(device);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] / repeat;
}

void Probe::speed() {
  make_dev_comm(8, false);
  const double us_one = launch_get({{256, kTarget, 256}}, 1, 32, 200) * 1e3;
  say("{\"measure\":\"get256_flush_wait_us\",\"value\":%.2f}", us_one);
  for (const int threads : {1, 32, 128, 256}) {
    std::vector<Row> rows;
    for (uint32_t i = 0; i < 12288; ++i) {
      rows.push_back({(i * 40503ull % 700000) * 256, kTarget + i * 256ull, 256});
    }
    const double t = launch_get(rows, 8, threads, 20);
    say("{\"measure\":\"get12288x256_8ctx_%dthreads_Mps\",\"value\":%.2f,\"ms\":%.4f}", threads,
        12288 / t / 1e3, t);
  }
  for (const uint64_t size : {1ull << 20, 16ull << 20, 128ull << 20}) {
    const double t = launch_get({{0, kTarget, static_cast<uint32_t>(size)}}, 1, 1, 5);
    say("{\"measure\":\"get_%lluMiB_GBps\",\"value\":%.2f,\"us\":%.1f}",
        static_cast<unsigned long long>(size >> 20), size / t / 1e6, t * 1e3);
  }
  barrier();
  if (o_.gpus > 1) {
    char* here = nullptr;
    void* there = nullptr;
    must(cudaMalloc(&here, 128 << 20), "peer copy");
    if (ncclGetLsaDevicePointer(window_, 0, peer(false), &there) == ncclSuccess &&
        there != nullptr) {
      std::vector<double> times;
      for (int i = 0; i < 7; ++i) {
        times.push_back(ms([&] {
          for (int k = 0; k < 5; ++k) {
            cudaMemcpyAsync(here, there, 128 << 20, cudaMemcpyDeviceToDevice, stream_);
          }
        }));
      }
      std::sort(times.begin(), times.end());
      say("{\"measure\":\"peer_copy_128MiB_GBps\",\"value\":%.2f}",
          (128 << 20) / (times[3] / 5) / 1e6);
    }
    cudaFree(here);
  }
  barrier();
  for (const bool warm : {true, false}) {
    const int turns = warm ? 10 : 500;
    const double t = ms([&] {
      ping_pong<<<1, 1, 0, stream_>>>(dev_, window_, rank_, peer(false), kScratch, turns, pings_,
                                      report_);
    });
    pings_ += turns;
    if (!warm) say("{\"measure\":\"put_signal_round_trip_us\",\"value\":%.2f}", t * 1e3 / turns);
  }
  barrier();
  for (const bool warm : {true, false}) {
    const int turns = warm ? 10 : 500;
    const double t = ms([&] { barriers<<<1, 1, 0, stream_>>>(dev_, turns, report_); });
    if (!warm) say("{\"measure\":\"world_gin_barrier_us\",\"value\":%.2f}", t * 1e3 / turns);
  }
  verdict("speed");
}

/// The dead-locks: a kernel on every multiprocessor, and streams queued behind a spinning kernel.
void Probe::crowd() {
  make_dev_comm(1, false);
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 512; ++i) rows.push_back({i * 256ull, kTarget + i * 256ull, 256});
  Row* device = nullptr;
  must(cudaMalloc(&device, rows.size() * sizeof(Row)), "rows");
  must(cudaMemcpy(device, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice), "rows");
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  for (int turn = 0; turn < 3; ++turn) {
    must(cudaMemset(data_ + kTarget, 0xEE, 1 << 20), "poison");
    barrier();
    const double t = ms([&] {
      everyone_waits<<<2 * sms, 1024, 1024, stream_>>>(dev_, window_, peer(false), device, 512,
                                                       report_);
    });
    check<<<8, 256, 0, stream_>>>(words(kTarget), 512 * 64, (rank_ + 1) % o_.ranks, 0, 0, report_);
    verdict("every_sm_waits", ",\"ms\":" + std::to_string(t));
  }
  // 24 streams behind a kernel that spins, then a kernel that gets.
  int* stop = nullptr;
  must(cudaMallocHost(&stop, sizeof(int)), "stop");
  *stop = 0;
  must(cudaMemset(data_ + kTarget, 0xEE, 1 << 20), "poison");
  barrier();
  std::vector<cudaStream_t> streams(24);
  for (auto& s : streams) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  get_rows<<<1, 32, 0, streams[0]>>>(dev_, window_, peer(false), device, 512, report_, false, 1);
  spin<<<1, 1, 0, streams[1]>>>(stop);
  for (auto& s : streams) fill<<<1, 1, 0, s>>>(words(kScratch + (32 << 20)), 1, 0, 0);
  const auto begin = std::chrono::steady_clock::now();
  const cudaError_t first = cudaStreamSynchronize(streams[0]);
  *stop = 1;
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  must(first, "24 streams");
  check<<<8, 256, 0, stream_>>>(words(kTarget), 512 * 64, (rank_ + 1) % o_.ranks, 0, 0, report_);
  verdict("24_streams", ",\"ms\":" + std::to_string(took));
  for (auto& s : streams) {
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
  }
  cudaFree(device);
}

/// Random sizes and places, gets and puts, checked byte by byte, for o_.seconds.
void Probe::mixed() {
  make_dev_comm(8, false);
  unsigned state = o_.seed;
  auto random = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(o_.seconds);
  Row* device = nullptr;
  constexpr int kMost = 512;
  must(cudaMalloc(&device, kMost * sizeof(Row)), "rows");
  uint64_t bytes = 0, operations = 0, rounds = 0;
  float more = 1;
  while (more != 0) {
    std::vector<Row> rows;
    const int count = 1 + random(kMost);
    uint64_t at = kTarget;
    for (int i = 0; i < count; ++i) {
      const uint32_t kind = random(16);
      uint32_t size = kind == 0  ? 4 + random(1 << 18) * 4
                      : kind < 4 ? 4 + random(2048) * 4
                                 : 4 + random(64) * 4;
      if (at + size > kScratch) break;
      rows.push_back({random((kSourceBytes - (2u << 20)) / 4) * 4ull, at, size});
      at += (size + 15) / 4 * 4;
      bytes += size;
    }
    const bool put = random(2) == 1;
    if (put) {
      for (Row& row : rows) std::swap(row.remote, row.local);
    }
    operations += rows.size();
    must(cudaMemcpyAsync(device, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice,
                         stream_),
         "rows");
    must(cudaMemsetAsync(data_ + kTarget, 0xEE, at - kTarget, stream_), "poison");
    barrier();
    if (put) {
      for (int c = 0; c < 8; ++c) ++signals_sent_[c];
      put_rows<<<8, 64, 0, stream_>>>(dev_, window_, peer(false), device,
                                      static_cast<int>(rows.size()), report_, false, 0,
                                      signals_sent_[0]);
    } else {
      get_rows<<<8, 64, 0, stream_>>>(dev_, window_, peer(false), device,
                                      static_cast<int>(rows.size()), report_, false, 1);
    }
    const int from = put ? before(false) : (rank_ + 1) % o_.ranks;
    barrier();
    for (const Row& row : rows) {
      check<<<4, 256, 0, stream_>>>(words(put ? row.remote : row.local), row.size / 4, from,
                                    (put ? row.local : row.remote) / 4, 0, report_);
    }
    must(cudaStreamSynchronize(stream_), "mixed");
    ++rounds;
    float left =
        std::chrono::steady_clock::now() < end && report_->wrong + report_->timeouts == 0 ? 1 : 0;
    // All ranks stop together, when the first wants to.
    must(cudaMemcpy(one_, &left, sizeof left, cudaMemcpyHostToDevice), "left");
    must(ncclAllReduce(one_, one_, 1, ncclFloat, ncclMin, comm_, stream_), "ncclAllReduce");
    must(cudaStreamSynchronize(stream_), "left");
    must(cudaMemcpy(&more, one_, sizeof more, cudaMemcpyDeviceToHost), "left");
    must(cudaMemset(one_, 0, sizeof(float)), "one");
  }
  auto count_of = [](const char* path) {
    int n = 0;
    FILE* p = popen((std::string("ls ") + path + " | wc -l").c_str(), "r");
    if (p == nullptr || std::fscanf(p, "%d", &n) != 1) n = -1;
    if (p != nullptr) pclose(p);
    return n;
  };
  const std::string self = "/proc/" + std::to_string(getpid());
  verdict("mixed", ",\"rounds\":" + std::to_string(rounds) + ",\"operations\":" +
                       std::to_string(operations) + ",\"bytes\":" + std::to_string(bytes) +
                       ",\"threads\":" + std::to_string(count_of((self + "/task").c_str())) +
                       ",\"fds\":" + std::to_string(count_of((self + "/fd").c_str())));
  cudaFree(device);
}

/// An over-long request ends with an error that NCCL tells, and the kernel returns.
void Probe::errors() {
  make_dev_comm(1, false);
  barrier();
  const auto begin = std::chrono::steady_clock::now();
  bad_get<<<1, 1, 0, stream_>>>(dev_, window_, peer(false), report_);
  must(cudaStreamSynchronize(stream_), "bad get");
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ncclResult_t async = ncclSuccess;
  ncclCommGetAsyncError(comm_, &async);
  if (async == ncclSuccess) ++report_->wrong;
  verdict("bad_get_ends",
          ",\"ms\":" + std::to_string(took) + ",\"async\":" + std::to_string(async));
}

/// The other rank dies while this one's kernel waits for it.
void Probe::killed() {
  make_dev_comm(1, false);
  barrier();
  if (rank_ != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(getpid(), SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  wait_for_the_dead<<<1, 1, 0, stream_>>>(dev_, peer(false), report_);
  must(cudaStreamSynchronize(stream_), "wait for the dead");
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ncclResult_t async = ncclSuccess;
  ncclCommGetAsyncError(comm_, &async);
  if (async == ncclSuccess) ++report_->wrong;
  verdict("killed_peer_is_told",
          ",\"ms\":" + std::to_string(took) + ",\"async\":" + std::to_string(async));
  std::_Exit(failures_ == 0 ? 0 : 1);
}

/// A window whose first half is GPU memory and whose second half is CPU memory of the GPU's node.
void Probe::segments() {
  make_dev_comm(1, false);
  constexpr uint64_t kHalf = 64ull << 20;
  int device = 0;
  cudaGetDevice(&device);
  auto drive = [](CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) return;
    std::fprintf(stderr, "%s: CUresult %d\n", what, static_cast<int>(result));
    std::_Exit(3);
  };
  CUdeviceptr base = 0;
  drive(cuMemAddressReserve(&base, 2 * kHalf, 2 << 20, 0, 0), "reserve");
  for (const bool cpu : {false, true}) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = cpu ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = cpu ? 0 : device;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!cpu) prop.allocFlags.gpuDirectRDMACapable = 1;
    CUmemGenericAllocationHandle handle = 0;
    drive(cuMemCreate(&handle, kHalf, &prop, 0), "create");
    drive(cuMemMap(base + (cpu ? kHalf : 0), kHalf, 0, handle, 0), "map");
    cuMemRelease(handle);
    CUmemAccessDesc access[2] = {};
    access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[0].location.id = device;
    access[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    access[1].location.id = 0;
    access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    drive(cuMemSetAccess(base + (cpu ? kHalf : 0), kHalf, access, cpu ? 2 : 1), "access");
  }
  auto* mixed = reinterpret_cast<uint32_t*>(base);
  fill<<<1024, 256, 0, stream_>>>(mixed, 2 * kHalf / 4, rank_, 5);
  must(cudaStreamSynchronize(stream_), "fill");
  ncclWindow_t window = nullptr;
  must(ncclCommWindowRegister(comm_, reinterpret_cast<void*>(base), 2 * kHalf, &window,
                              NCCL_WIN_COLL_SYMMETRIC),
       "register a mixed window");
  barrier();
  // GPU to GPU, CPU to GPU, GPU to CPU, and across the seam.
  const uint64_t places[4][2] = {{4096, 8 << 20},
                                 {kHalf + 4096, 12 << 20},
                                 {8192, kHalf + (8 << 20)},
                                 {kHalf - 4096, 16 << 20}};
  for (const auto& place : places) {
    get_mixed<<<1, 1, 0, stream_>>>(dev_, window, peer(false), place[0], place[1], 16384, report_);
  }
  must(cudaStreamSynchronize(stream_), "get mixed");
  for (const auto& place : places) {
    check<<<4, 256, 0, stream_>>>(mixed + place[1] / 4, 4096, (rank_ + 1) % o_.ranks, place[0] / 4,
                                  5, report_);
  }
  verdict("mixed_segments");
  barrier();
  ncclCommWindowDeregister(comm_, window);
}

int Probe::main() {
  if (o_.hosts > 1) {
    setenv("NCCL_HOSTID", ("node" + std::to_string(rank_ * o_.hosts / o_.ranks)).c_str(), 1);
    setenv("NCCL_MNNVL_ENABLE", "0", 1);
  }
  connect();
  auto wants = [&](const char* what) {
    return ("," + o_.run + ",").find(std::string(",") + what + ",") != std::string::npos;
  };
  if (wants("ops")) {
    for (const int contexts : {1, 2, 3, 4, 8}) {
      ops(contexts, false);
      if (contexts == 1 || contexts == 4) ops(contexts, true);
    }
  }
  if (wants("rail")) {
    for (const int contexts : {1, 4}) ops(contexts, true);
  }
  if (wants("quick")) ops(2, false);
  if (wants("speed")) speed();
  if (wants("crowd")) crowd();
  if (wants("mixed")) mixed();
  if (wants("segments")) segments();
  if (wants("killed")) killed();
  if (wants("errors")) errors();
  if (have_dev_) must(ncclDevCommDestroy(comm_, &dev_), "ncclDevCommDestroy");
  ncclCommWindowDeregister(comm_, window_);
  ncclCommDestroy(comm_);
  say("{\"done\":true,\"failures\":%d}", failures_);
  return failures_ == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--ranks") options.ranks = std::atoi(argv[i + 1]);
    if (name == "--gpus") options.gpus = std::atoi(argv[i + 1]);
    if (name == "--run") options.run = argv[i + 1];
    if (name == "--seconds") options.seconds = std::atoi(argv[i + 1]);
    if (name == "--hosts") options.hosts = std::atoi(argv[i + 1]);
    if (name == "--seed") options.seed = static_cast<unsigned>(std::atoi(argv[i + 1]));
  }
  options.id_file += "." + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) std::_Exit(Probe(options, rank).main());
    children.push_back(child);
  }
  int worst = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    wait(&status);
    const bool meant_to_die = WIFSIGNALED(status) && options.run == "killed";
    const int code = meant_to_die        ? 0
                     : WIFEXITED(status) ? WEXITSTATUS(status)
                                         : 128 + WTERMSIG(status);
    worst = std::max(worst, code);
  }
  unlink((options.id_file + ".ready").c_str());
  return worst;
}
