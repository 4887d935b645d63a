// libnccl, opened at run time and compared with the headers this was built with.
#pragma once

#include <nccl.h>
#include <nccl_device/host.h>

#include <memory>
#include <optional>
#include <string>

#include "engram/core/result.hpp"

namespace engram::nccl {

/// 2.30.4: the first with the get calls and properties that this backend needs.
inline constexpr int kLeastNcclVersion = NCCL_VERSION(2, 30, 4);
inline constexpr int kHeaderNcclVersion = NCCL_VERSION_CODE;
static_assert(kHeaderNcclVersion >= kLeastNcclVersion, "NCCL headers older than 2.30.4");

/// "2.32.3" for 23203.
[[nodiscard]] std::string version_text(int version_code);

/// Whether device code built with `header` may run under a library of `loaded`. Pure.
/// Errors: unsupported with both versions, `path` and a remedy: older than 2.30.4, older than the
/// headers, another major version; and, unless `accept_newer`, any other difference.
[[nodiscard]] Result<void> check_versions(int header, int loaded, const std::string& path,
                                          bool accept_newer);

struct LibraryOptions {
  std::optional<std::string> path;  ///< of libnccl.so.2; else searched, see load_nccl
  /// A library newer than the headers reads our device communicator by its version field; NCCL
  /// supports that within a major version, but it was not measured here.
  bool accept_newer = false;
};

struct NcclLibrary {
  std::string path;
  int version = 0;

  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclCommCount) comm_count = nullptr;
  decltype(&::ncclCommUserRank) comm_user_rank = nullptr;
  decltype(&::ncclCommCuDevice) comm_cu_device = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommQueryProperties) comm_query_properties = nullptr;
  decltype(&::ncclCommWindowRegister) comm_window_register = nullptr;
  decltype(&::ncclCommWindowDeregister) comm_window_deregister = nullptr;
  decltype(&::ncclDevCommCreate) dev_comm_create = nullptr;
  decltype(&::ncclDevCommDestroy) dev_comm_destroy = nullptr;
  decltype(&::ncclGetLsaDevicePointer) get_lsa_device_pointer = nullptr;
  decltype(&::ncclGetPeerDevicePointer) get_peer_device_pointer = nullptr;
  ncclTeam_t (*team_lsa)(ncclComm_t) = nullptr;
  decltype(&::ncclMemAlloc) mem_alloc = nullptr;
  decltype(&::ncclMemFree) mem_free = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;

  /// Success, or an internal error with NCCL's own words for `comm`.
  template <class... Parts>
  [[nodiscard]] Result<void> check(ncclResult_t result, ncclComm_t comm,
                                   const Parts&... what) const {
    if (result == ncclSuccess) return {};
    return within(Error{ErrorCode::internal, explain(result, comm)}, what...);
  }
  [[nodiscard]] std::string explain(ncclResult_t result, ncclComm_t comm) const;
};

/// Opens `options.path`; without one: the copy already in this process (a framework's), then the
/// system's libnccl.so.2, then the one found when this was built.
/// Errors: unsupported, naming what was tried, or as check_versions.
[[nodiscard]] Result<std::shared_ptr<const NcclLibrary>> load_nccl(const LibraryOptions& options);

}  // namespace engram::nccl
