#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "engram/nccl/doctor.hpp"

namespace engram::nccl {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

int number_in(const fs::path& file, int otherwise) {
  std::ifstream in(file);
  int value = otherwise;
  return in >> value ? value : otherwise;
}

/// NVML by its stable C names: the number of active NVLinks is nowhere else.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = find<int (*)()>("nvmlInit_v2");
    by_pci_ = find<decltype(by_pci_)>("nvmlDeviceGetHandleByPciBusId_v2");
    link_state_ = find<decltype(link_state_)>("nvmlDeviceGetNvLinkState");
    ready_ = init != nullptr && by_pci_ != nullptr && link_state_ != nullptr && init() == 0;
  }
  ~Nvml() {
    if (ready_) {
      if (const auto shutdown = find<int (*)()>("nvmlShutdown")) shutdown();
    }
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] std::optional<int> active_links(const std::string& pci) const {
    void* device = nullptr;
    if (!ready_ || by_pci_(pci.c_str(), &device) != 0) return std::nullopt;
    constexpr unsigned kMaxLinks = 18;  // NVML_NVLINK_MAX_LINKS
    int active = 0;
    for (unsigned link = 0; link < kMaxLinks; ++link) {
      int state = 0;
      if (link_state_(device, link, &state) == 0 && state == 1) ++active;
    }
    return active;
  }

 private:
  template <class F>
  [[nodiscard]] F find(const char* name) const {
    return reinterpret_cast<F>(::dlsym(library_, name));
  }
  void* library_;
  int (*by_pci_)(const char*, void**) = nullptr;
  int (*link_state_)(void*, unsigned, int*) = nullptr;
  bool ready_ = false;
};

void examine_devices(const DriverApi& driver, Report& report) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    report.driver_problem = cudaGetErrorString(error);
    return;
  }
  const Nvml nvml;
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp p{};
    if (cudaGetDeviceProperties(&p, d) != cudaSuccess) continue;
    char pci[32] = {};
    cudaDeviceGetPCIBusId(pci, sizeof(pci), d);
    DeviceFacts facts;
    facts.index = d;
    facts.name = p.name;
    facts.pci = pci;
    facts.memory = Bytes{p.totalGlobalMem};
    facts.num_sms = p.multiProcessorCount;
    facts.capability = p.major * 10 + p.minor;
    const auto has = [&](CUdevice_attribute which) {
      return driver.attribute(d, which).value_or(0);
    };
    facts.numa_node = driver.attribute(d, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID).value_or(-1);
    facts.vmm = has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
    facts.host_vmm = has(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
    facts.posix_fd = has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
    facts.fabric = has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) != 0;
    facts.rdma_vmm = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
    facts.active_nvlinks = nvml.active_links(facts.pci);
    report.devices.push_back(std::move(facts));
  }
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (a == b) continue;
      PeerFacts facts{a, b, false, false, 0};
      int value = 0;
      if (cudaDeviceCanAccessPeer(&value, a, b) == cudaSuccess) facts.access = value != 0;
      if (cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrNativeAtomicSupported, a, b) ==
          cudaSuccess) {
        facts.atomics = value != 0;
      }
      if (cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrPerformanceRank, a, b) == cudaSuccess) {
        facts.rank = value;
      }
      report.peers.push_back(facts);
    }
  }
}

}  // namespace

std::vector<NicFacts> find_nics(const fs::path& sys) {
  std::vector<NicFacts> nics;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sys / "class/infiniband", error)) {
    NicFacts nic;
    nic.name = entry.path().filename();
    nic.board = first_line(entry.path() / "board_id");
    nic.numa_node = number_in(entry.path() / "device/numa_node", -1);
    const fs::path driver = fs::read_symlink(entry.path() / "device/driver", error);
    if (!error) nic.driver = driver.filename();
    for (const auto& port : fs::directory_iterator(entry.path() / "ports", error)) {
      NicPortFacts facts;
      facts.port = std::atoi(port.path().filename().c_str());
      facts.state = first_line(port.path() / "state");
      facts.rate = first_line(port.path() / "rate");
      facts.link_layer = first_line(port.path() / "link_layer");
      nic.ports.push_back(std::move(facts));
    }
    std::sort(nic.ports.begin(), nic.ports.end(),
              [](const auto& a, const auto& b) { return a.port < b.port; });
    nics.push_back(std::move(nic));
  }
  std::sort(nics.begin(), nics.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return nics;
}

Report examine(const DoctorInput& input) {
  Report report;
  report.environment = input.environment;
  cudaRuntimeGetVersion(&report.runtime_version);
  if (const auto driver = load_driver()) {
    report.driver_path = (*driver)->path;
    report.driver_version = (*driver)->version;
    examine_devices(**driver, report);
  } else {
    report.driver_problem = driver.error().message;
  }
  if (const auto library = load_nccl(input.library)) {
    report.nccl_path = (*library)->path;
    report.nccl_version = (*library)->version;
  } else {
    report.nccl_problem = library.error().message;
  }
  report.nics = find_nics(input.sys);
  for (const char* variable : {"NCCL_GIN_PLUGIN", "NCCL_RMA_PLUGIN"}) {
    const auto found = input.environment.find(variable);
    if (found == input.environment.end()) continue;
    report.plugins.push_back(examine_plugin(variable, found->second, report.nccl_version));
  }
  if (report.plugins.empty() && input.plugin_nearby) {
    report.plugins.push_back(examine_plugin("", *input.plugin_nearby, report.nccl_version));
  }
  report.peer_memory_module = fs::exists(input.sys / "module/nvidia_peermem");
  return report;
}

}  // namespace engram::nccl
