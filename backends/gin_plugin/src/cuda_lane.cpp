#include "cuda_lane.hpp"

#include <algorithm>

extern "C" const unsigned char engram_gin_kernels[];  // the fat binary, written by bin2c

namespace engram::gin_plugin {
namespace {

constexpr unsigned kMaxBlocks = 132;  // an H200's multiprocessors; blocks loop over what is left

}  // namespace

Result<std::unique_ptr<CudaLane>> CudaLane::in_context(std::shared_ptr<const CudaApi> api,
                                                       CUcontext context, std::size_t slots,
                                                       bool owned) {
  std::unique_ptr<CudaLane> lane(new CudaLane);
  lane->api_ = std::move(api);
  lane->context_ = context;
  lane->owned_ = owned;
  const CudaApi& cuda = *lane->api_;
  void* warm_up_host = nullptr;
  auto run = [&]() -> Result<void> {
    auto ok = check(cuda, cuda.module_load_data(&lane->module_, engram_gin_kernels),
                    "loading the copy kernels");
    if (!ok) return ok;
    ok = check(cuda, cuda.module_get_function(&lane->copy_, lane->module_, "engram_gin_copy"),
               "finding engram_gin_copy");
    if (!ok) return ok;
    ok = check(cuda, cuda.module_get_function(&lane->add_, lane->module_, "engram_gin_add"),
               "finding engram_gin_add");
    if (!ok) return ok;
    constexpr int kHighest = -5;  // clamped by the driver
    ok = check(cuda, cuda.stream_create(&lane->stream_, CU_STREAM_NON_BLOCKING, kHighest),
               "creating a stream");
    if (!ok) return ok;
    ok = check(cuda, cuda.mem_alloc(&lane->tallies_, slots * sizeof(BatchTally)),
               "allocating batch counts");
    if (!ok) return ok;
    ok = check(cuda, cuda.memset_d8_async(lane->tallies_, 0, slots * sizeof(BatchTally),
                                          lane->stream_), "clearing batch counts");
    if (!ok) return ok;
    ok = check(cuda, cuda.mem_host_alloc(&warm_up_host, sizeof(BatchControl),
                                         CU_MEMHOSTALLOC_PORTABLE), "pinning memory");
    if (!ok) return ok;
    auto* control = new (warm_up_host) BatchControl{};
    for (const bool adds : {false, true}) {
      ok = lane->launch(adds, warm_up_host, 0, control, 0, 0);
      if (!ok) return ok;
    }
    return check(cuda, cuda.stream_synchronize(lane->stream_), "running the copy kernels once");
  };
  auto ok = run();
  if (warm_up_host != nullptr) cuda.mem_free_host(warm_up_host);
  if (!ok) return tl::unexpected(ok.error());
  return lane;
}

Result<std::unique_ptr<CudaLane>> CudaLane::in_new_context(std::shared_ptr<const CudaApi> api,
                                                           std::size_t slots) {
  const CudaApi& cuda = *api;
  CUdevice device = 0;
  auto ok = check(cuda, cuda.ctx_get_device(&device), "asking for the device");
  if (!ok) return tl::unexpected(ok.error());
  CUcontext context = nullptr;
  ok = check(cuda, cuda.ctx_create(&context, CU_CTX_SCHED_SPIN, device),
             "creating a second context");
  if (!ok) return tl::unexpected(ok.error());
  auto lane = in_context(std::move(api), context, slots, true);
  CUcontext popped = nullptr;
  cuda.ctx_pop_current(&popped);
  return lane;
}

CudaLane::~CudaLane() {
  if (context_ == nullptr) return;
  const bool pushed = api_->ctx_push_current(context_) == CUDA_SUCCESS;
  if (stream_ != nullptr) {
    api_->stream_synchronize(stream_);
    api_->stream_destroy(stream_);
  }
  if (tallies_ != 0) api_->mem_free(tallies_);
  if (module_ != nullptr) api_->module_unload(module_);
  if (pushed) {
    CUcontext popped = nullptr;
    api_->ctx_pop_current(&popped);
  }
  if (owned_) api_->ctx_destroy(context_);
}

Result<void> CudaLane::launch(bool adds, const void* list, std::size_t count,
                              BatchControl* control, std::size_t slot, std::uint64_t id) {
  const CudaApi& cuda = *api_;
  auto number = static_cast<unsigned>(count);
  CUdeviceptr tally = tallies_ + slot * sizeof(BatchTally);
  void* arguments[] = {&list, &number, &control, &tally, &id};
  const unsigned blocks =
      adds ? 1 : std::clamp((number + kCopiesPerBlock - 1) / kCopiesPerBlock, 1u, kMaxBlocks);
  const unsigned threads = adds ? 32 : kCopyThreads;
  const CUresult result = inside([&] {
    return cuda.launch_kernel(adds ? add_ : copy_, blocks, 1, 1, threads, 1, 1, 0, stream_,
                              arguments, nullptr);
  });
  return check(cuda, result, "starting a copy kernel");
}

}  // namespace engram::gin_plugin
