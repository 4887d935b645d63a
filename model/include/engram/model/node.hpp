// One machine from inside, as NCCL describes it: CPUs, GPUs, NICs and what lies between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::model {

struct NodeCpu {
  std::uint32_t numa = 0;
  std::string arch, vendor;
};

/// Where a device is plugged in: the PCI switches from the CPU down to it.
struct PciPlace {
  std::string busid;
  std::size_t cpu = 0;                ///< position in NodeDescription::cpus
  std::vector<std::string> switches;  ///< bus ids, the one next to the CPU first
  BytesPerSecond rate{};              ///< of the device's own link; 0 if the file does not say
};

struct NvlinkEdge {
  std::string target;  ///< bus id of a GPU, or of an NVLink switch
  std::uint32_t count = 1;
  bool to_switch = false;
};

struct NodeGpu {
  std::uint32_t dev = 0;
  std::optional<std::uint32_t> rank;
  std::uint32_t sm = 0;  ///< compute capability, 90 = 9.0
  bool gdr = false;      ///< NICs can read and write its memory
  PciPlace place;
  std::vector<NvlinkEdge> nvlinks;
};

struct NodeNic {
  std::string name;
  std::uint32_t dev = 0, port = 0;
  std::string guid;  ///< ports of one card share it
  BytesPerSecond speed{};
  bool gdr = false;
  PciPlace place;
};

struct NodeDescription {
  std::vector<NodeCpu> cpus;
  std::vector<NodeGpu> gpus;
  std::vector<NodeNic> nics;
  std::vector<std::string> notes;  ///< what of the file was not understood, one line each
};

/// Reads an NCCL topology file (NCCL_TOPO_DUMP_FILE, or one written for NCCL_TOPO_FILE).
/// Understood: system, cpu, pci, nic, net, gpu, nvlink. Other elements are noted.
/// Errors: not_found; invalid_argument with FILE:LINE.
[[nodiscard]] Result<NodeDescription> import_nccl_topology(const std::string& path);

/// What a transfer between two devices crosses, the nearest first.
enum class PciDistance { one_switch, several_switches, cpu, between_cpus };
[[nodiscard]] std::string_view name_of(PciDistance distance);
[[nodiscard]] PciDistance distance(const PciPlace& a, const PciPlace& b);

/// Position of the NIC each GPU uses, [num_gpus]: the nearest; among equally near ones the least
/// used so far, then the first. Empty if the node has no NIC.
[[nodiscard]] std::vector<std::size_t> nearest_nics(const NodeDescription& node);

/// GPUs that NVLink joins, as positions, each group sorted; single GPUs are groups of one.
[[nodiscard]] std::vector<std::vector<std::size_t>> nvlink_groups(const NodeDescription& node);

/// For people: CPUs, the devices below them, NVLink, and which NIC each GPU uses.
[[nodiscard]] std::string node_tree(const NodeDescription& node);

}  // namespace engram::model
