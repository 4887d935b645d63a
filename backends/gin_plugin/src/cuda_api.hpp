// The CUDA driver's functions, looked up at run time: the library loads on machines without a GPU.
#pragma once

#include <cuda.h>

#include "engram/core/result.hpp"

namespace engram::gin_plugin {

/// Versioned names, so that each signature here is the one that is called whatever the driver.
struct CudaApi {
  CUresult (*get_error_name)(CUresult, const char**);
  CUresult (*get_error_string)(CUresult, const char**);
  CUresult (*ctx_get_current)(CUcontext*);
  CUresult (*ctx_set_current)(CUcontext);
  CUresult (*ctx_get_device)(CUdevice*);
  CUresult (*ctx_create)(CUcontext*, unsigned, CUdevice);
  CUresult (*ctx_destroy)(CUcontext);
  CUresult (*ctx_pop_current)(CUcontext*);
  CUresult (*ctx_push_current)(CUcontext);
  CUresult (*device_get_name)(char*, int, CUdevice);
  CUresult (*thread_exchange_capture_mode)(CUstreamCaptureMode*);
  CUresult (*module_load_data)(CUmodule*, const void*);
  CUresult (*module_unload)(CUmodule);
  CUresult (*module_get_function)(CUfunction*, CUmodule, const char*);
  CUresult (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void**, void**);
  CUresult (*stream_create)(CUstream*, unsigned, int);
  CUresult (*stream_destroy)(CUstream);
  CUresult (*stream_synchronize)(CUstream);
  CUresult (*stream_write_value64)(CUstream, CUdeviceptr, cuuint64_t, unsigned);
  CUresult (*mem_host_alloc)(void**, std::size_t, unsigned);
  CUresult (*mem_free_host)(void*);
  CUresult (*mem_host_register)(void*, std::size_t, unsigned);
  CUresult (*mem_host_unregister)(void*);
  CUresult (*mem_alloc)(CUdeviceptr*, std::size_t);
  CUresult (*mem_free)(CUdeviceptr);
  CUresult (*memset_d8_async)(CUdeviceptr, unsigned char, std::size_t, CUstream);
  CUresult (*memcpy_async)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  CUresult (*memcpy_htod_async)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*mem_get_address_range)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  CUresult (*mem_retain_handle)(CUmemGenericAllocationHandle*, void*);
  CUresult (*mem_get_properties)(CUmemAllocationProp*, CUmemGenericAllocationHandle);
  CUresult (*mem_export)(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                         unsigned long long);
  CUresult (*mem_import)(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType);
  CUresult (*mem_release)(CUmemGenericAllocationHandle);
  CUresult (*mem_address_reserve)(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                                  unsigned long long);
  CUresult (*mem_address_free)(CUdeviceptr, std::size_t);
  CUresult (*mem_map)(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                      unsigned long long);
  CUresult (*mem_unmap)(CUdeviceptr, std::size_t);
  CUresult (*mem_set_access)(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);
  /// Driver 13.0 and later; null before, then copies go one by one.
  CUresult (*memcpy_batch_async)(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t,
                                 CUmemcpyAttributes*, std::size_t*, std::size_t, CUstream);
};

/// Makes a context current on this thread for the guard's life. Whoever closes a communicator may
/// do it on a thread that has none, where the driver frees nothing.
class InContext {
 public:
  InContext(const CudaApi& api, CUcontext context)
      : api_(api), pushed_(api.ctx_push_current(context) == CUDA_SUCCESS) {}
  ~InContext() {
    CUcontext popped = nullptr;
    if (pushed_) api_.ctx_pop_current(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const CudaApi& api_;
  bool pushed_;
};

/// Errors: unsupported without libcuda.so.1 or when a function is missing, which is named.
[[nodiscard]] Result<CudaApi> load_cuda_api();

/// internal, with what was done and the driver's own words; nothing for CUDA_SUCCESS.
[[nodiscard]] Result<void> check(const CudaApi& api, CUresult result, std::string_view doing);

}  // namespace engram::gin_plugin
