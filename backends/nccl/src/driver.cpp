#include "engram/nccl/driver.hpp"

#include <dlfcn.h>

#include <utility>

namespace engram::nccl {
namespace {

/// Fills one entry point; collects the names of those that are missing.
template <class Function>
void find(void* library, const char* name, Function& into, std::string& missing) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  if (into == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

}  // namespace

std::string DriverApi::name_of(CUresult result) const {
  const char* name = nullptr;
  if (get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(result));
  }
  return name;
}

Result<int> DriverApi::attribute(int device, CUdevice_attribute which) const {
  CUdevice handle = 0;
  int value = 0;
  CUresult result = device_get(&handle, device);
  if (result == CUDA_SUCCESS) result = device_get_attribute(&value, which, handle);
  if (result != CUDA_SUCCESS) {
    return fail(ErrorCode::internal, "attribute ", static_cast<int>(which), " of device ", device,
                ": ", name_of(result));
  }
  return value;
}

Result<std::shared_ptr<const DriverApi>> load_driver(std::string_view path) {
  void* const library = ::dlopen(std::string(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(ErrorCode::unsupported, "no CUDA driver: ", ::dlerror(),
                "; install the NVIDIA driver, or use --backend sim or loopback");
  }
  auto api = std::make_shared<DriverApi>();
  std::string missing;
  find(library, "cuInit", api->init, missing);
  find(library, "cuDriverGetVersion", api->driver_get_version, missing);
  find(library, "cuGetErrorName", api->get_error_name, missing);
  find(library, "cuDeviceGet", api->device_get, missing);
  find(library, "cuDeviceGetAttribute", api->device_get_attribute, missing);
  find(library, "cuMemAddressReserve", api->mem_address_reserve, missing);
  find(library, "cuMemAddressFree", api->mem_address_free, missing);
  find(library, "cuMemCreate", api->mem_create, missing);
  find(library, "cuMemRelease", api->mem_release, missing);
  find(library, "cuMemMap", api->mem_map, missing);
  find(library, "cuMemUnmap", api->mem_unmap, missing);
  find(library, "cuMemSetAccess", api->mem_set_access, missing);
  find(library, "cuMemGetAllocationGranularity", api->mem_get_allocation_granularity, missing);
  find(library, "cuMemExportToShareableHandle", api->mem_export_to_shareable_handle, missing);
  find(library, "cuMemImportFromShareableHandle", api->mem_import_from_shareable_handle, missing);
  Dl_info info{};
  if (api->init != nullptr && ::dladdr(reinterpret_cast<void*>(api->init), &info) != 0) {
    api->path = info.dli_fname;
  }
  if (!missing.empty()) {
    ::dlclose(library);
    return fail(ErrorCode::unsupported, api->path, " lacks ", missing,
                "; a driver for CUDA 12.2 or newer is needed");
  }
  // Left open for the life of the process: the CUDA runtime holds it as well.
  if (const CUresult result = api->init(0); result != CUDA_SUCCESS) {
    return fail(ErrorCode::unsupported, api->path, ": cuInit answers ", api->name_of(result));
  }
  if (const CUresult result = api->driver_get_version(&api->version); result != CUDA_SUCCESS) {
    return fail(ErrorCode::unsupported, api->path, ": ", api->name_of(result));
  }
  return std::shared_ptr<const DriverApi>(std::move(api));
}

}  // namespace engram::nccl
