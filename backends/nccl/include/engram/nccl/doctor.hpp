// What this machine can do, which paths exist between which ranks, and why others do not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/nccl/communicator.hpp"

namespace engram::nccl {

/// The variables that matter here, read by main: NCCL_*, CUDA_*; name to value, set ones only.
using Environment = std::map<std::string, std::string, std::less<>>;

/// The NCCL_* of `environment` that change what this backend may do.
/// Errors: invalid_argument naming a variable that is no number.
[[nodiscard]] Result<NcclSettings> settings_from(const Environment& environment);

struct DeviceFacts {
  int index = 0;
  std::string name, pci;
  Bytes memory;
  int num_sms = 0, capability = 0;  ///< 90 for 9.0
  int numa_node = -1;
  bool vmm = false, host_vmm = false, posix_fd = false, fabric = false, rdma_vmm = false;
  std::optional<int> active_nvlinks;  ///< by NVML; empty where NVML is absent
};

struct PeerFacts {
  int from = 0, to = 0;
  bool access = false, atomics = false;
  int rank = 0;  ///< CUDA's performance rank; 0 is best
};

struct NicPortFacts {
  int port = 0;
  std::string state, link_layer, rate;
};
struct NicFacts {
  std::string name, driver, board;
  int numa_node = -1;
  std::vector<NicPortFacts> ports;
};

/// A library that NCCL is told to use in the place of a NIC, or could be.
struct PluginFacts {
  std::string variable;  ///< NCCL_GIN_PLUGIN or NCCL_RMA_PLUGIN; empty: nearby, but not set
  std::string path;
  std::string name;                  ///< as its table says
  std::vector<std::string> entries;  ///< "GIN v14", "RMA v14"
  std::string version;               ///< Engram's own plugin alone, as the next two
  int oldest_nccl = 0, newest_nccl = 0;
  std::string problem, remark;  ///< why NCCL cannot use it; what else is to be known
  bool none = false;            ///< the word "none": NCCL is told to use no plugin
};

/// What a communicator says of itself, when one could be made.
struct CommunicatorFacts {
  CommFacts facts;
  std::uint32_t lsa_size = 1;
  bool multimem = false, host_rma = false;
};

struct PathFacts {
  Rank from, to;
  bool self = false, load_store = false, network = false;
  std::string how;                   ///< "own memory", "NVLink loads", "GIN gdaki", ...
  std::vector<std::string> why_not;  ///< of each path that is missing
};

enum class Severity : std::uint8_t { note, advice, problem };
struct Advice {
  Severity severity = Severity::note;
  std::string text;
};

struct Report {
  std::string driver_path, driver_problem;
  int driver_version = 0, runtime_version = 0;
  std::string nccl_path, nccl_problem;
  int nccl_version = 0, header_version = kHeaderNcclVersion;
  std::vector<DeviceFacts> devices;
  std::vector<PeerFacts> peers;
  std::vector<NicFacts> nics;
  std::vector<PluginFacts> plugins;
  bool peer_memory_module = false;  ///< nvidia_peermem is loaded
  Environment environment;
  std::optional<CommunicatorFacts> communicator;
  std::string communicator_problem;
  std::vector<PathFacts> paths;
  std::vector<Advice> advice;

  /// Whether the hardware backend can run here at all: a driver, a device and a right NCCL.
  [[nodiscard]] bool usable() const;
};

struct DoctorInput {
  Environment environment;
  LibraryOptions library;
  std::filesystem::path sys = "/sys", proc = "/proc";  ///< other roots for tests
  /// A GIN plugin beside this program, reported where no variable names one.
  std::optional<std::filesystem::path> plugin_nearby;
};

/// Looks at this machine; a part that is missing is a line in the report, never a failure. The
/// communicator's part stays empty: fill `communicator` (facts_of) where one exists, then diagnose.
[[nodiscard]] Report examine(const DoctorInput& input);
/// The NICs under `sys`/class/infiniband.
[[nodiscard]] std::vector<NicFacts> find_nics(const std::filesystem::path& sys);
/// Loads the plugin at `path`, which `variable` names, and looks at what it offers; `nccl_version`
/// is the running NCCL's, 0 where there is none.
[[nodiscard]] PluginFacts examine_plugin(const std::string& variable, const std::string& path,
                                         int nccl_version);
/// From the communicator's facts and the machine's: fills `paths` and `advice`. Pure.
void diagnose(Report& report);

[[nodiscard]] std::string to_text(const Report& report);
[[nodiscard]] nlohmann::json to_json(const Report& report);

}  // namespace engram::nccl
