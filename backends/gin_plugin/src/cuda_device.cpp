#include <algorithm>

#include "cuda_api.hpp"
#include "cuda_engine.hpp"
#include "engram/gin_plugin/device.hpp"

namespace engram::gin_plugin {
namespace {

constexpr std::uint64_t kReserveAlignment = 2ull << 20;  // a GPU segment's granularity

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

class CudaMapping final : public Mapping {
 public:
  CudaMapping(std::shared_ptr<const CudaApi> api, CUdeviceptr base, std::uint64_t size,
              std::uint64_t offset)
      : api_(std::move(api)), base_(base), size_(size), offset_(offset) {}
  ~CudaMapping() override {
    api_->mem_unmap(base_, size_);
    api_->mem_address_free(base_, size_);
  }
  std::byte* data() const override { return reinterpret_cast<std::byte*>(base_ + offset_); }

 private:
  std::shared_ptr<const CudaApi> api_;
  CUdeviceptr base_;
  std::uint64_t size_;
  std::uint64_t offset_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const CudaApi> api, const EnginePolicy& policy, CUcontext context,
             CUdevice device)
      : api_(std::move(api)), policy_(policy), context_(context), device_(device) {}
  ~CudaDevice() override {
    const InContext current(*api_, context_);
    if (stream_ != nullptr) api_->stream_destroy(stream_);
  }

  Result<void> set_up() {
    return check(*api_, api_->stream_create(&stream_, CU_STREAM_NON_BLOCKING, 0),
                 "creating a stream");
  }

  std::string describe() const override {
    char name[128] = "?";
    api_->device_get_name(name, sizeof name, device_);
    return fmt::format("CUDA device {} ({})", device_, name);
  }

  Result<void> attach_thread() override {
    // A global-mode graph capture in another thread must not forbid this thread's calls.
    auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    api_->thread_exchange_capture_mode(&mode);
    return check(*api_, api_->ctx_set_current(context_), "making the context current");
  }

  Result<Block> allocate_pinned(Bytes size) override {
    void* data = nullptr;
    auto ok = check(*api_, api_->mem_host_alloc(&data, size.count, CU_MEMHOSTALLOC_PORTABLE),
                    fmt::format("pinning {} bytes", size.count));
    if (!ok) return tl::unexpected(ok.error());
    std::fill_n(static_cast<std::byte*>(data), size.count, std::byte{0});
    return Block(static_cast<std::byte*>(data), [api = api_, context = context_](std::byte* p) {
      const InContext current(*api, context);
      api->mem_free_host(p);
    });
  }

  Result<std::function<void()>> pin(std::span<std::byte> memory) override {
    auto ok = check(
        *api_, api_->mem_host_register(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE),
        fmt::format("pinning {} shared bytes", memory.size()));
    if (!ok) return tl::unexpected(ok.error());
    return std::function<void()>([api = api_, context = context_, data = memory.data()] {
      const InContext current(*api, context);
      api->mem_host_unregister(data);
    });
  }

  Result<Block> allocate(Bytes size) override {
    CUdeviceptr data = 0;
    auto ok = check(*api_, api_->mem_alloc(&data, size.count),
                    fmt::format("allocating {} bytes", size.count));
    if (!ok) return tl::unexpected(ok.error());
    Block block(reinterpret_cast<std::byte*>(data), [api = api_, context = context_](std::byte* p) {
      const InContext current(*api, context);
      api->mem_free(address(p));
    });
    ok = check(*api_, api_->memset_d8_async(data, 0, size.count, stream_), "clearing memory");
    if (ok) ok = check(*api_, api_->stream_synchronize(stream_), "clearing memory");
    if (!ok) return tl::unexpected(ok.error());
    return block;
  }

  Result<void> upload(std::byte* dst, std::span<const std::byte> src) override {
    auto ok = check(*api_, api_->memcpy_htod_async(address(dst), src.data(), src.size(), stream_),
                    "copying to the device");
    if (!ok) return ok;
    return check(*api_, api_->stream_synchronize(stream_), "copying to the device");
  }

  Result<std::vector<ExportedSegment>> export_region(std::byte* data, Bytes size) override;
  Result<std::unique_ptr<Mapping>> map(const ExportedSegment& segment) override;
  Result<std::unique_ptr<Engine>> make_engine(EngineUse use) override {
    EnginePolicy policy = policy_;
    if (use == EngineUse::staging) policy.copy_engine_allowed = false;
    if (!own_) {
      auto own = OwnContext::of_device(api_);
      if (!own) return tl::unexpected(own.error());
      own_ = std::move(*own);
    }
    return make_cuda_engine(api_, own_, policy, avoidance_);
  }

 private:
  std::shared_ptr<const CudaApi> api_;
  EnginePolicy policy_;
  CUcontext context_;
  CUdevice device_;
  CUstream stream_ = nullptr;
  std::shared_ptr<OwnContext> own_;  ///< made with the first engine
  std::shared_ptr<Avoidance> avoidance_ = std::make_shared<Avoidance>();
};

Result<std::vector<ExportedSegment>> CudaDevice::export_region(std::byte* data, Bytes size) {
  std::vector<ExportedSegment> segments;
  for (std::uint64_t at = 0; at < size.count;) {
    ExportedSegment segment;
    segment.offset = at;
    segment.size = size.count - at;
    segment.allocation_size = segment.size;
    CUdeviceptr base = 0;
    std::size_t length = 0;
    // Gives base 0 for CPU segments; NCCL registers those one by one, whole.
    if (api_->mem_get_address_range(&base, &length, address(data + at)) == CUDA_SUCCESS &&
        base != 0) {
      segment.allocation_offset = address(data + at) - base;
      segment.allocation_size = length;
      segment.size = std::min(segment.size, length - segment.allocation_offset);
    }
    CUmemGenericAllocationHandle handle = 0;
    if (api_->mem_retain_handle(&handle, data + at) == CUDA_SUCCESS) {
      CUmemAllocationProp properties{};
      if (api_->mem_get_properties(&properties, handle) == CUDA_SUCCESS) {
        segment.on_host = properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
      }
      int fd = -1;
      if (api_->mem_export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          CUDA_SUCCESS) {
        segment.handle = FileHandle(fd);
      }
      api_->mem_release(handle);
    }
    at += segment.size;
    segments.push_back(std::move(segment));
  }
  return segments;
}

Result<std::unique_ptr<Mapping>> CudaDevice::map(const ExportedSegment& segment) {
  const auto fd = static_cast<std::intptr_t>(segment.handle.get());
  CUmemGenericAllocationHandle handle = 0;
  auto ok = check(*api_,
                  api_->mem_import(&handle, reinterpret_cast<void*>(fd),
                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                  "importing a peer's memory");
  if (!ok) return tl::unexpected(ok.error());
  const std::uint64_t size = segment.allocation_size;
  CUdeviceptr base = 0;
  ok = check(*api_, api_->mem_address_reserve(&base, size, kReserveAlignment, 0, 0),
             "reserving addresses for a peer's memory");
  if (ok) {
    ok = check(*api_, api_->mem_map(base, size, 0, handle, 0),
               fmt::format("mapping {} bytes of a peer's memory", size));
    if (!ok) api_->mem_address_free(base, size);
  }
  api_->mem_release(handle);
  if (!ok) return tl::unexpected(ok.error());
  auto mapping = std::make_unique<CudaMapping>(api_, base, size, segment.allocation_offset);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ok = check(*api_, api_->mem_set_access(base, size, &access, 1), "access to a peer's memory");
  if (!ok) return tl::unexpected(ok.error());
  return mapping;
}

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(const EnginePolicy& policy) {
  auto loaded = load_cuda_api();
  if (!loaded) return tl::unexpected(loaded.error());
  return make_cuda_device(std::make_shared<const CudaApi>(*loaded), policy);
}

Result<std::unique_ptr<Device>> make_cuda_device(std::shared_ptr<const CudaApi> api,
                                                 const EnginePolicy& policy) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  auto ok = check(*api, api->ctx_get_current(&context), "asking for the CUDA context");
  if (ok && context == nullptr) {
    return fail(ErrorCode::unsupported, "no CUDA context is current on the calling thread");
  }
  if (ok) ok = check(*api, api->ctx_get_device(&device), "asking for the CUDA device");
  if (!ok) return tl::unexpected(ok.error());
  auto made = std::make_unique<CudaDevice>(api, policy, context, device);
  ok = made->set_up();
  if (!ok) return tl::unexpected(ok.error());
  return made;
}

}  // namespace engram::gin_plugin
