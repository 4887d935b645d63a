#include "cuda_lane.hpp"

#include <algorithm>
#include <map>
#include <mutex>

extern "C" const unsigned char engram_gin_kernels[];  // the fat binary, written by bin2c

namespace engram::gin_plugin {
namespace {

constexpr unsigned kMaxBlocks = 132;  // an H200's multiprocessors; blocks loop over what is left

/// The contexts that live, by device. The process's alone, since NCCL connects each communicator
/// without saying of which others it knows.
struct LivingContexts {
  std::mutex mutex;
  std::map<CUdevice, std::weak_ptr<OwnContext>> by_device;
};
LivingContexts& living_contexts() {
  static LivingContexts contexts;
  return contexts;
}

}  // namespace

Result<std::shared_ptr<OwnContext>> OwnContext::of_device(std::shared_ptr<const CudaApi> api) {
  CUdevice device = 0;
  auto ok = check(*api, api->ctx_get_device(&device), "asking for the device");
  if (!ok) return tl::unexpected(ok.error());
  const std::lock_guard lock(living_contexts().mutex);
  std::weak_ptr<OwnContext>& living = living_contexts().by_device[device];
  if (auto own = living.lock()) return own;
  std::shared_ptr<OwnContext> own(new OwnContext);
  own->api_ = std::move(api);
  ok = check(*own->api_, own->api_->ctx_create(&own->context_, CU_CTX_SCHED_SPIN, device),
             "creating a second context");
  if (!ok) return tl::unexpected(ok.error());
  CUcontext popped = nullptr;
  own->api_->ctx_pop_current(&popped);
  living = own;
  return own;
}

OwnContext::~OwnContext() {
  if (context_ != nullptr) api_->ctx_destroy(context_);
}

Result<std::unique_ptr<CudaLane>> CudaLane::create(std::shared_ptr<const CudaApi> api,
                                                   std::shared_ptr<OwnContext> own,
                                                   std::size_t slots) {
  std::unique_ptr<CudaLane> lane(new CudaLane);
  lane->api_ = std::move(api);
  lane->own_ = std::move(own);
  Result<void> ok;
  if (lane->own_) {
    lane->context_ = lane->own_->get();
  } else {
    ok = check(*lane->api_, lane->api_->ctx_get_current(&lane->context_), "asking for the context");
    if (!ok) return tl::unexpected(ok.error());
  }
  lane->inside([&] {
    ok = lane->set_up(slots);
    return CUDA_SUCCESS;
  });
  if (!ok) return tl::unexpected(ok.error());
  return lane;
}

/// With the lane's context current.
Result<void> CudaLane::set_up(std::size_t slots) {
  const CudaApi& cuda = *api_;
  auto ok =
      check(cuda, cuda.module_load_data(&module_, engram_gin_kernels), "loading the copy kernels");
  if (!ok) return ok;
  ok = check(cuda, cuda.module_get_function(&copy_, module_, "engram_gin_copy"),
             "finding engram_gin_copy");
  if (!ok) return ok;
  ok = check(cuda, cuda.module_get_function(&add_, module_, "engram_gin_add"),
             "finding engram_gin_add");
  if (!ok) return ok;
  constexpr int kHighest = -5;  // clamped by the driver
  ok = check(cuda, cuda.stream_create(&stream_, CU_STREAM_NON_BLOCKING, kHighest),
             "creating a stream");
  if (!ok) return ok;
  const std::size_t bytes = slots * sizeof(BatchTally);
  ok = check(cuda, cuda.mem_alloc(&tallies_, bytes), "allocating batch counts");
  if (!ok) return ok;
  ok = check(cuda, cuda.memset_d8_async(tallies_, 0, bytes, stream_), "clearing batch counts");
  if (!ok) return ok;

  void* pinned = nullptr;
  ok = check(cuda, cuda.mem_host_alloc(&pinned, sizeof(BatchControl), CU_MEMHOSTALLOC_PORTABLE),
             "pinning memory");
  if (!ok) return ok;
  auto* control = new (pinned) BatchControl{};
  for (const bool adds : {false, true}) {
    if (ok) ok = launch(adds, pinned, 0, control, 0, 0);
  }
  if (ok) ok = check(cuda, cuda.stream_synchronize(stream_), "running the copy kernels once");
  cuda.mem_free_host(pinned);
  return ok;
}

CudaLane::~CudaLane() {
  inside([&] {
    if (stream_ != nullptr) {
      api_->stream_synchronize(stream_);
      api_->stream_destroy(stream_);
    }
    if (tallies_ != 0) api_->mem_free(tallies_);
    if (module_ != nullptr) api_->module_unload(module_);
    return CUDA_SUCCESS;
  });
}

Result<void> CudaLane::launch(bool adds, const void* list, std::size_t count, BatchControl* control,
                              std::size_t slot, std::uint64_t id) {
  const CudaApi& cuda = *api_;
  auto number = static_cast<unsigned>(count);
  CUdeviceptr tally = tallies_ + slot * sizeof(BatchTally);
  void* arguments[] = {&list, &number, &control, &tally, &id};
  const unsigned blocks =
      adds ? 1 : std::clamp((number + kCopiesPerBlock - 1) / kCopiesPerBlock, 1u, kMaxBlocks);
  const unsigned threads = adds ? 32 : kCopyThreads;
  return check(cuda,
               cuda.launch_kernel(adds ? add_ : copy_, blocks, 1, 1, threads, 1, 1, 0, stream_,
                                  arguments, nullptr),
               "starting a copy kernel");
}

}  // namespace engram::gin_plugin
