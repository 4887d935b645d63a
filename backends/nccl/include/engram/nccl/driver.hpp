// libcuda, opened at run time: a program built with it starts on machines that have no driver.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "engram/core/result.hpp"

namespace engram::nccl {

/// The driver's entry points that the runtime library does not offer.
struct DriverApi {
  std::string path;  ///< of the library that was opened
  int version = 0;   ///< CUDA version of the driver: 1000 * major + 10 * minor

  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_address_free = nullptr;
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_get_allocation_granularity = nullptr;
  decltype(&::cuMemExportToShareableHandle) mem_export_to_shareable_handle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) mem_import_from_shareable_handle = nullptr;

  /// "CUDA_ERROR_NOT_PERMITTED", or the number.
  [[nodiscard]] std::string name_of(CUresult result) const;
  /// Success, or an internal error: "cuMemCreate of ...: CUDA_ERROR_...".
  template <class... Parts>
  [[nodiscard]] Result<void> check(CUresult result, const Parts&... what) const {
    if (result == CUDA_SUCCESS) return {};
    return within(Error{ErrorCode::internal, name_of(result)}, what...);
  }
  /// Errors: internal, naming device and attribute number.
  [[nodiscard]] Result<int> attribute(int device, CUdevice_attribute which) const;
};

/// Opens libcuda and initialises it. Errors: unsupported, saying what to install: no library, an
/// entry point it lacks, no device, or a driver that refuses.
[[nodiscard]] Result<std::shared_ptr<const DriverApi>> load_driver(
    std::string_view path = "libcuda.so.1");

}  // namespace engram::nccl
