#include <cuda.h>

#include "device.cuh"
#include "tests.hpp"

namespace gin_probe {
namespace {

/// Gets from a window of GPU and CPU segments, both ends mixed.
__global__ void get_mixed(Target target, uint64_t from, uint64_t to, uint64_t bytes,
                          Report* report) {
  ncclGin gin(target.comm, 0);
  gin.get(team_of(target), target.peer, target.window, from, target.window, to, bytes,
          ncclCoopThread(), ncclGin_None{}, ncclGinOptFlagsDefault, ncclGin_SegmentMixed{});
  flush_and_wait(gin, target, report);
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: CUresult %d\n", what, static_cast<int>(result));
  std::_Exit(3);
}

}  // namespace

void segments(Session& s) {
  s.make_dev_comm(1, false);
  constexpr uint64_t kHalf = 64ull << 20;
  int device = 0;
  cudaGetDevice(&device);
  CUdeviceptr base = 0;
  must(cuMemAddressReserve(&base, 2 * kHalf, 2 << 20, 0, 0), "reserve");
  for (const bool cpu : {false, true}) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = cpu ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = cpu ? 0 : device;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!cpu) prop.allocFlags.gpuDirectRDMACapable = 1;
    CUmemGenericAllocationHandle handle = 0;
    must(cuMemCreate(&handle, kHalf, &prop, 0), "create");
    must(cuMemMap(base + (cpu ? kHalf : 0), kHalf, 0, handle, 0), "map");
    cuMemRelease(handle);
    CUmemAccessDesc access[2] = {};
    access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[0].location.id = device;
    access[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    access[1].location.id = 0;
    access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    must(cuMemSetAccess(base + (cpu ? kHalf : 0), kHalf, access, cpu ? 2 : 1), "access");
  }
  auto* mixed = reinterpret_cast<uint32_t*>(base);
  constexpr uint32_t kSalt = 5;
  fill(mixed, 2 * kHalf / 4, s.rank(), kSalt, s.stream());
  must(cudaStreamSynchronize(s.stream()), "fill");
  ncclWindow_t window = nullptr;
  must(ncclCommWindowRegister(s.comm(), reinterpret_cast<void*>(base), 2 * kHalf, &window,
                              NCCL_WIN_COLL_SYMMETRIC),
       "register a mixed window");
  s.barrier();
  // GPU to GPU, CPU to GPU, GPU to CPU, and across the seam.
  const uint64_t places[4][2] = {{4096, 8 << 20},
                                 {kHalf + 4096, 12 << 20},
                                 {8192, kHalf + (8 << 20)},
                                 {kHalf - 4096, 16 << 20}};
  Target target = s.target(false);
  target.window = window;
  for (const auto& place : places) {
    get_mixed<<<1, 1, 0, s.stream()>>>(target, place[0], place[1], 16384, s.report());
  }
  must(cudaStreamSynchronize(s.stream()), "get mixed");
  for (const auto& place : places) {
    check(mixed + place[1] / 4, 4096, s.after(false), place[0] / 4, kSalt, s.report(), s.stream());
  }
  s.verdict("mixed_segments");
  s.barrier();
  must(ncclCommWindowDeregister(s.comm(), window), "deregister");
  must(cuMemUnmap(base, 2 * kHalf), "unmap");
  must(cuMemAddressFree(base, 2 * kHalf), "free");
}

}  // namespace gin_probe
