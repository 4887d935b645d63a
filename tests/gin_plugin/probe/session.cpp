#include "session.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace gin_probe {
namespace {

int entries_in(const char* folder) {
  DIR* dir = opendir(folder);
  if (dir == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(dir);
  return count;
}

/// What this process holds of all GPUs, by NVML; -1 where it does not tell.
long gpu_used_kb() {
  struct Process {  // nvmlProcessInfo_t
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
  };
  using Count = int (*)(unsigned*);
  using Handle = int (*)(unsigned, void**);
  using Processes = int (*)(void*, unsigned*, Process*);
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return -1;
  static const bool ready = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"))() == 0;
  const auto count_devices = reinterpret_cast<Count>(dlsym(library, "nvmlDeviceGetCount_v2"));
  const auto device_of = reinterpret_cast<Handle>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto processes_of =
      reinterpret_cast<Processes>(dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  unsigned devices = 0;
  if (!ready || processes_of == nullptr || count_devices(&devices) != 0) return -1;
  long sum = -1;
  for (unsigned d = 0; d < devices; ++d) {
    void* device = nullptr;
    Process found[64];
    unsigned count = 64;
    if (device_of(d, &device) != 0 || processes_of(device, &count, found) != 0) return -1;
    for (unsigned i = 0; i < count; ++i) {
      const bool mine = found[i].pid == static_cast<unsigned>(getpid());
      if (!mine || found[i].used_bytes == ~0ull) continue;
      sum = std::max(sum, 0L) + static_cast<long>(found[i].used_bytes / 1024);
    }
  }
  return sum;
}

}  // namespace

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

std::string Holdings::text() const {
  return "\"resident_kb\":" + std::to_string(resident_kb) +
         ",\"gpu_used_kb\":" + std::to_string(gpu_used_kb) + ",\"files\":" + std::to_string(files) +
         ",\"threads\":" + std::to_string(threads);
}

Holdings holdings() {
  Holdings now;
  if (FILE* file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      std::sscanf(line, "VmRSS: %ld", &now.resident_kb);
    }
    std::fclose(file);
  }
  now.gpu_used_kb = gpu_used_kb();
  if (now.gpu_used_kb < 0) {
    size_t free = 0, total = 0;
    must(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    now.gpu_used_kb = static_cast<long>((total - free) / 1024);
  }
  now.files = entries_in("/proc/self/fd") - 1;  // without the folder's own
  now.threads = entries_in("/proc/self/task");
  return now;
}

Session::Session(const Options& options, int rank) : options_(options), rank_(rank) {
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(rank_ % std::min(devices, options_.gpus)), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  must(cudaMallocHost(&report_, sizeof(Report)), "report");
  *report_ = {};
  must(cudaMalloc(&one_, sizeof(float)), "one");
  must(cudaMemset(one_, 0, sizeof(float)), "one");
}

/// By a file for each communicator that is made, since the ranks have nothing else in common yet.
ncclUniqueId Session::trade_id() {
  ncclUniqueId id;
  const std::string name = options_.id_file + "." + std::to_string(connections_++);
  const std::string ready = name + ".ready";
  if (rank_ == 0) {
    must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    FILE* file = std::fopen(name.c_str(), "wb");
    if (file == nullptr || std::fwrite(&id, sizeof id, 1, file) != 1) std::_Exit(5);
    std::fclose(file);
    std::rename(name.c_str(), ready.c_str());
    return id;
  }
  for (int i = 0; access(ready.c_str(), R_OK) != 0; ++i) {
    if (i > 3000) std::_Exit(5);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FILE* file = std::fopen(ready.c_str(), "rb");
  if (file == nullptr || std::fread(&id, sizeof id, 1, file) != 1) std::_Exit(5);
  std::fclose(file);
  return id;
}

void Session::connect() {
  const ncclUniqueId id = trade_id();
  const bool first = connections_ == 1;
  must(ncclCommInitRank(&comm_, options_.ranks, id, rank_), "ncclCommInitRank");
  ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
  must(ncclCommQueryProperties(comm_, &props), "ncclCommQueryProperties");
  int version = 0;
  ncclGetVersion(&version);
  if (first) {
    say("{\"nccl\":%d,\"ginType\":%d,\"railedGinType\":%d,\"nLsaTeams\":%d,\"ranks\":%d}", version,
        props.ginType, props.railedGinType, props.nLsaTeams, options_.ranks);
  }
  if (props.railedGinType == NCCL_GIN_TYPE_NONE) {
    std::fprintf(stderr, "no GIN: is the plugin set?\n");
    std::_Exit(6);
  }
  must(ncclMemAlloc(reinterpret_cast<void**>(&data_), kWindowBytes), "ncclMemAlloc");
  must(cudaMemset(data_, kPoison, kWindowBytes), "memset");
  must(ncclCommWindowRegister(comm_, data_, kWindowBytes, &window_, NCCL_WIN_COLL_SYMMETRIC),
       "ncclCommWindowRegister");
  fill(words(kSource), kSourceBytes / 4, rank_, 0, stream_);
  must(cudaStreamSynchronize(stream_), "fill");
}

void Session::disconnect() {
  if (have_dev_) must(ncclDevCommDestroy(comm_, &dev_), "ncclDevCommDestroy");
  have_dev_ = false;
  must(ncclCommWindowDeregister(comm_, window_), "ncclCommWindowDeregister");
  must(ncclCommDestroy(comm_), "ncclCommDestroy");
  must(ncclMemFree(data_), "ncclMemFree");
  comm_ = nullptr;
  data_ = nullptr;
}

void Session::make_dev_comm(int contexts, bool rail) {
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
  signals_sent_ = 0;
}

void Session::barrier() {
  must(ncclAllReduce(one_, one_, 1, ncclFloat, ncclSum, comm_, stream_), "ncclAllReduce");
  must(cudaStreamSynchronize(stream_), "barrier");
}

float Session::least(float value) {
  must(cudaMemcpyAsync(one_, &value, sizeof value, cudaMemcpyHostToDevice, stream_), "least");
  must(ncclAllReduce(one_, one_, 1, ncclFloat, ncclMin, comm_, stream_), "ncclAllReduce");
  float result = 0;
  must(cudaMemcpyAsync(&result, one_, sizeof result, cudaMemcpyDeviceToHost, stream_), "least");
  must(cudaMemsetAsync(one_, 0, sizeof(float), stream_), "least");
  must(cudaStreamSynchronize(stream_), "least");
  return result;
}

void Session::verdict(const std::string& name, const std::string& extra) {
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

double Session::ms(const std::function<void()>& work) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  must(cudaEventRecord(begin, stream_), "event");
  work();
  must(cudaEventRecord(end, stream_), "event");
  must(cudaEventSynchronize(end), "timing");
  float result = 0;
  must(cudaEventElapsedTime(&result, begin, end), "timing");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return result;
}

int Session::after(bool rail) const {
  const int stride = rail ? options_.ranks / rail_size_ : 1;
  return (rank_ + stride) % options_.ranks;
}

int Session::before(bool rail) const {
  const int stride = rail ? options_.ranks / rail_size_ : 1;
  return (rank_ + options_.ranks - stride) % options_.ranks;
}

Target Session::target(bool rail) const {
  return {dev_, window_, rail ? (rail_rank_ + 1) % rail_size_ : after(false), rail};
}

ncclResult_t Session::async_error() const {
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(comm_, &error);
  return error;
}

DeviceRows::DeviceRows(const std::vector<Row>& rows) : count_(static_cast<int>(rows.size())) {
  must(cudaMalloc(&data_, rows.size() * sizeof(Row)), "rows");
  must(cudaMemcpy(data_, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice), "rows");
}

DeviceRows::~DeviceRows() { cudaFree(data_); }

}  // namespace gin_probe
