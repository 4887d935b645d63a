// GPUs as a backend: this process's rank of a job, or several GPUs of this process.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/nccl/communicator.hpp"
#include "engram/nccl/doctor.hpp"
#include "engram/nccl/library.hpp"
#include "engram/nccl/nccl_transport.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::nccl {

struct NcclOptions {
  /// The grid that the caller reckons with; refused when NCCL's NVLink domains give another. Unset:
  /// NCCL's, in the mode of `device_options`.
  std::optional<core::RankGrid> grid;
  int device = 0;  ///< CUDA device of this rank; not read by make_nccl_local
  LibraryOptions library;
  DeviceOptions device_options;  ///< QPs and depth follow the first table that is opened
  NcclSettings settings;         ///< what the process's environment tells NCCL
  TransportOptions transport;
  Nanos call_limit = std::chrono::seconds(60);  ///< of each collective call of NCCL
  std::optional<ncclComm_t> existing;           ///< a framework's communicator to adopt
};

/// Collective over `ranks`, which outlives the backend; its run() executes the main for this
/// process's rank, again and again if asked, with one communicator.
/// Statistics are this rank's own. A run that fails on one rank fails on all, with that rank's
/// error; the communicator stays usable unless its device or a peer is lost.
/// Errors: unsupported, saying what this machine lacks: a driver, a GPU, a right NCCL, a path to a
/// peer; invalid_argument where grid or counts differ.
[[nodiscard]] Result<std::unique_ptr<core::Backend>> make_nccl(rendezvous::Rendezvous& ranks,
                                                               const NcclOptions& options);

/// One rank a thread, rank r on `devices[r]`; they meet over 127.0.0.1. Statistics are summed.
/// Errors: as make_nccl.
[[nodiscard]] Result<std::unique_ptr<core::Backend>> make_nccl_local(
    const std::vector<int>& devices, const NcclOptions& options);

/// What NCCL says of a communicator over `devices`, made and closed for the question: doctor's
/// `communicator`. Errors: as make_nccl.
[[nodiscard]] Result<CommunicatorFacts> probe_communicator(const std::vector<int>& devices,
                                                           const NcclOptions& options);

}  // namespace engram::nccl
