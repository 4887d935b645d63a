// From what NCCL says it can do to what is asked of the device communicator. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/rank_grid.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/nccl/library.hpp"

namespace engram::nccl {

/// What the process's environment tells NCCL; read by main, for NCCL offers no query of it.
struct NcclSettings {
  /// NCCL_SYM_REUSE_SYSMEM_HANDLES=1: needed by hybrid windows, wrong for elastic ones. NCCL reads
  /// it once, so a process makes one kind or the other.
  bool reuse_sysmem_handles = false;
  bool elastic_buffer_register = true;  ///< NCCL_ELASTIC_BUFFER_REGISTER, 1 by default
  std::optional<Bytes> window_stride;   ///< NCCL_WIN_STRIDE
};

/// Defaults are the reference's (spec: 20-symmetric-memory, Life).
struct DeviceOptions {
  core::Mode mode = core::Mode::direct;
  std::uint32_t num_qps = 17;  ///< contexts; one QP a peer each
  bool exclusive_qps = true;
  std::uint32_t queue_depth = 1024;          ///< not taken by the PROXY type
  int traffic_class = 3;                     ///< the service level
  std::optional<std::uint32_t> num_signals;  ///< default: ranks + 4
  std::uint32_t num_counters = 0;
  bool use_network = true;       ///< false: as if NCCL offered no GIN type
  bool require_network = false;  ///< refuse to start where no GIN type is offered
};

/// The parts of ncclCommProperties that matter here.
struct CommFacts {
  std::uint32_t num_ranks = 1;
  std::uint32_t num_lsa_teams = 1;
  bool device_api = true;
  ncclGinType_t gin = NCCL_GIN_TYPE_NONE;     ///< between all ranks
  ncclGinType_t railed = NCCL_GIN_TYPE_NONE;  ///< between ranks of a rail
};
[[nodiscard]] CommFacts facts_of(const ncclCommProperties_t& properties);
[[nodiscard]] std::string_view name_of(ncclGinType_t type);
[[nodiscard]] std::string_view name_of(ncclGinConnectionType_t type);

struct DevicePlan {
  core::RankGrid grid;
  ncclGinConnectionType_t connection = NCCL_GIN_CONNECTION_NONE;
  ncclGinType_t gin = NCCL_GIN_TYPE_NONE;  ///< the type that this plan's connections use
  std::uint32_t num_qps = 0, queue_depth = 0, num_signals = 0, num_counters = 0;
  int traffic_class = 0;
  bool exclusive_qps = false;
  std::vector<std::string> notes;  ///< what was asked and not taken, and why

  [[nodiscard]] bool has_network() const { return connection != NCCL_GIN_CONNECTION_NONE; }
};

/// Rail connections in hybrid mode, full ones in direct mode, none where NCCL offers no GIN type
/// and every peer is reached by loads and stores. Errors: unsupported, with the numbers and a
/// remedy, when a peer could not be reached, when the mode's connections are not offered, or when
/// the device API is missing; invalid_argument when ranks do not divide into the LSA teams or a
/// count is out of its range.
[[nodiscard]] Result<DevicePlan> plan_device(const CommFacts& facts, const DeviceOptions& options);

}  // namespace engram::nccl
