#include "cuda_api.hpp"

#include <dlfcn.h>

namespace engram::gin_plugin {

Result<CudaApi> load_cuda_api() {
  // Never closed: the driver stays for the process's life anyway.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(ErrorCode::unsupported, "no CUDA driver: ", dlerror());
  CudaApi api{};
  const char* missing = nullptr;
  auto find = [&](auto& function, const char* name, bool required = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && required && missing == nullptr) missing = name;
  };
  find(api.get_error_name, "cuGetErrorName");
  find(api.get_error_string, "cuGetErrorString");
  find(api.ctx_get_current, "cuCtxGetCurrent");
  find(api.ctx_set_current, "cuCtxSetCurrent");
  find(api.ctx_get_device, "cuCtxGetDevice");
  find(api.ctx_create, "cuCtxCreate_v2");
  find(api.ctx_destroy, "cuCtxDestroy_v2");
  find(api.ctx_pop_current, "cuCtxPopCurrent_v2");
  find(api.ctx_push_current, "cuCtxPushCurrent_v2");
  find(api.device_get_name, "cuDeviceGetName");
  find(api.thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(api.module_load_data, "cuModuleLoadData");
  find(api.module_unload, "cuModuleUnload");
  find(api.module_get_function, "cuModuleGetFunction");
  find(api.launch_kernel, "cuLaunchKernel");
  find(api.stream_create, "cuStreamCreateWithPriority");
  find(api.stream_destroy, "cuStreamDestroy_v2");
  find(api.stream_synchronize, "cuStreamSynchronize");
  find(api.stream_write_value64, "cuStreamWriteValue64_v2");
  find(api.mem_host_alloc, "cuMemHostAlloc");
  find(api.mem_free_host, "cuMemFreeHost");
  find(api.mem_host_register, "cuMemHostRegister_v2");
  find(api.mem_host_unregister, "cuMemHostUnregister");
  find(api.mem_alloc, "cuMemAlloc_v2");
  find(api.mem_free, "cuMemFree_v2");
  find(api.memset_d8_async, "cuMemsetD8Async");
  find(api.memcpy_async, "cuMemcpyAsync");
  find(api.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  find(api.mem_get_address_range, "cuMemGetAddressRange_v2");
  find(api.mem_retain_handle, "cuMemRetainAllocationHandle");
  find(api.mem_get_properties, "cuMemGetAllocationPropertiesFromHandle");
  find(api.mem_export, "cuMemExportToShareableHandle");
  find(api.mem_import, "cuMemImportFromShareableHandle");
  find(api.mem_release, "cuMemRelease");
  find(api.mem_address_reserve, "cuMemAddressReserve");
  find(api.mem_address_free, "cuMemAddressFree");
  find(api.mem_map, "cuMemMap");
  find(api.mem_unmap, "cuMemUnmap");
  find(api.mem_set_access, "cuMemSetAccess");
  find(api.memcpy_batch_async, "cuMemcpyBatchAsync_v2", false);
  if (missing != nullptr) {
    return fail(ErrorCode::unsupported, "the CUDA driver has no ", missing);
  }
  return api;
}

Result<void> check(const CudaApi& api, CUresult result, std::string_view doing) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = "?";
  const char* text = "?";
  api.get_error_name(result, &name);
  api.get_error_string(result, &text);
  return fail(ErrorCode::internal, doing, ": ", name, " (", text, ")");
}

}  // namespace engram::gin_plugin
