#include "engram/nccl/window_memory.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "engram/rendezvous/host.hpp"

namespace engram::nccl {
namespace {

using rendezvous::FileDescriptor;
using rendezvous::Rendezvous;

/// The ranks of this host that share segments with this one; all have asked for the same window.
Result<std::vector<Rank>> sharing_ranks_of(Rendezvous& ranks, const WindowShape& shape) {
  struct Facts {
    rendezvous::HostKey host;
    WindowShape shape;
  };
  const auto facts = ranks.allgather_value(Facts{rendezvous::this_host(), shape});
  if (!facts) return tl::unexpected<Error>(facts.error());
  const Facts& mine = (*facts)[ranks.rank().value];
  std::vector<Rank> here;
  for (std::uint32_t r = 0; r < ranks.num_ranks(); ++r) {
    const Facts& other = (*facts)[r];
    if (other.host == mine.host) here.push_back(Rank{r});
    if (other.shape.kind != shape.kind || other.shape.gpu_bytes != shape.gpu_bytes ||
        other.shape.segment_bytes != shape.segment_bytes) {
      return fail(ErrorCode::invalid_argument, "rank ", r, " asks for a window of ",
                  other.shape.gpu_bytes.count, " + ", other.shape.segment_bytes.count, " B, rank ",
                  ranks.rank().value, " for ", shape.gpu_bytes.count, " + ",
                  shape.segment_bytes.count, " B");
    }
  }
  if (shape.kind != core::WindowKind::hybrid_elastic) return here;
  for (std::uint32_t r = 0; r < ranks.num_ranks() && shape.sharing_ranks == 0; ++r) {
    const auto there = static_cast<std::size_t>(std::count_if(
        facts->begin(), facts->end(), [&](const Facts& f) { return f.host == (*facts)[r].host; }));
    if (there != here.size()) {
      return fail(ErrorCode::invalid_argument, "the host of rank ", r, " has ", there,
                  " ranks, the host of rank ", ranks.rank().value, " has ", here.size(),
                  "; hybrid windows need the same number on each");
    }
  }
  return sharing_group(here, ranks.rank(), shape.sharing_ranks);
}

CUmemAllocationHandleType driver_type(HandleType type) {
  return type == HandleType::fabric ? CU_MEM_HANDLE_TYPE_FABRIC
                                    : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

/// What travels to the ranks of the same host: how their segment was made, and its fabric handle.
struct SegmentOffer {
  HandleType type = HandleType::posix_fd;
  CUmemFabricHandle fabric{};
};

}  // namespace

std::string_view name_of(HandleType type) {
  switch (type) {
    case HandleType::nccl:
      return "nccl";
    case HandleType::fabric:
      return "fabric";
    case HandleType::posix_fd:
      return "posix_fd";
  }
  return "unknown";
}

class WindowMemory::Impl {
 public:
  Impl(std::shared_ptr<const DriverApi> driver, std::shared_ptr<const NcclLibrary> library,
       int device, const WindowShape& wanted)
      : shape(wanted), driver_(std::move(driver)), library_(std::move(library)), device_(device) {}

  ~Impl() {
    if (nccl_memory_ != nullptr) library_->mem_free(nccl_memory_);
    // Mappings first, the range last; handles were released as soon as they were mapped.
    for (const core::Region& mapped : mapped_) {
      driver_->mem_unmap(address_ + mapped.offset.count, mapped.size.count);
    }
    for (const CUmemGenericAllocationHandle handle : handles_) driver_->mem_release(handle);
    if (address_ != 0) driver_->mem_address_free(address_, reserved_.count);
  }

  [[nodiscard]] Result<void> allocate_by_nccl() {
    const ncclResult_t result = library_->mem_alloc(&nccl_memory_, size().count);
    types = {HandleType::nccl};
    return library_->check(result, nullptr, "ncclMemAlloc of ", size().count, " B");
  }

  /// The range, and all pieces this rank owns, mapped and reachable.
  [[nodiscard]] Result<void> build_own() {
    if (const auto able = check_device(); !able) return able;
    reserved_ = size();
    if (const auto done =
            driver_->check(driver_->mem_address_reserve(&address_, reserved_.count,
                                                        core::kWindowAlignment.count, 0, 0),
                           "reserving ", reserved_.count, " B of addresses");
        !done) {
      return done;
    }
    types.assign(pieces.size(), HandleType::posix_fd);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].owner) continue;
      const auto handle = create_piece(pieces[i], types[i]);
      if (!handle)
        return within(handle.error(), "piece ", i, " of ", pieces[i].region.size.count, " B");
      if (const auto mapped = map_piece(i, *handle); !mapped) return mapped;
      if (pieces[i].on_host) {
        own_segment_ = i;
        own_handle_ = *handle;
      }
    }
    return {};
  }

  /// Hands this rank's segment to the others of the host and maps theirs. Collective.
  [[nodiscard]] Result<void> share_segments(Rendezvous& ranks,
                                            const rendezvous::HandlePassing& how) {
    SegmentOffer offer;
    FileDescriptor exported;
    const auto prepared = ranks.agree(export_own(offer, exported));
    if (!prepared) return prepared;
    const auto offers = ranks.allgather_value(offer);
    if (!offers) return tl::unexpected<Error>(offers.error());
    const int fd = exported.get();
    auto passed =
        rendezvous::exchange_handles(ranks, std::span(&fd, exported.valid() ? 1u : 0u), how);
    if (!passed) return tl::unexpected<Error>(passed.error());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!pieces[i].owner) continue;
      const Rank owner = *pieces[i].owner;
      SegmentOffer theirs = (*offers)[owner.value];
      void* source = &theirs.fabric;
      if (theirs.type == HandleType::posix_fd) {
        const auto found = passed->find(owner);
        if (found == passed->end() || found->second.size() != 1) {
          return fail(ErrorCode::internal, "no handle of rank ", owner.value, "'s segment");
        }
        source = reinterpret_cast<void*>(static_cast<std::intptr_t>(found->second[0].get()));
      }
      types[i] = theirs.type;
      CUmemGenericAllocationHandle handle = 0;
      if (const auto done = driver_->check(
              driver_->mem_import_from_shareable_handle(&handle, source, driver_type(theirs.type)),
              "importing the segment of rank ", owner.value);
          !done) {
        return done;
      }
      handles_.push_back(handle);
      if (const auto mapped = map_piece(i, handle); !mapped) return mapped;
    }
    return {};
  }

  [[nodiscard]] std::byte* base() const {
    return static_cast<std::byte*>(nccl_memory_ != nullptr ? nccl_memory_
                                                           : reinterpret_cast<void*>(address_));
  }
  [[nodiscard]] Bytes size() const { return pieces.back().region.end(); }

  WindowShape shape;
  std::vector<WindowPiece> pieces;
  std::vector<HandleType> types;
  int numa_node = 0;

 private:
  [[nodiscard]] Result<void> check_device() {
    const auto vmm =
        driver_->attribute(device_, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    const auto host_vmm = driver_->attribute(
        device_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    const auto numa = driver_->attribute(device_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    const auto fabric =
        driver_->attribute(device_, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
    const auto rdma =
        driver_->attribute(device_, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    for (const auto* value : {&vmm, &host_vmm, &numa, &fabric, &rdma}) {
      if (!*value) return tl::unexpected<Error>(value->error());
    }
    if (*vmm == 0 || *host_vmm == 0) {
      return fail(ErrorCode::unsupported, "device ", device_, " (driver for CUDA ",
                  driver_->version / 1000, ".", driver_->version % 1000 / 10,
                  ") has no virtual memory management for ", *vmm == 0 ? "GPU" : "host",
                  " memory; host segments need it: a newer driver, or placement = \"gpu\"");
    }
    numa_node = std::max(*numa, 0);  // -1: the system does not speak of NUMA; all memory is node 0
    fabric_ = *fabric != 0;
    rdma_ = *rdma != 0;
    return {};
  }

  [[nodiscard]] Result<CUmemGenericAllocationHandle> create_piece(const WindowPiece& piece,
                                                                  HandleType& type) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type =
        piece.on_host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = piece.on_host ? numa_node : device_;
    properties.allocFlags.gpuDirectRDMACapable = !piece.on_host && rdma_ ? 1 : 0;
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    for (const HandleType attempt : {HandleType::fabric, HandleType::posix_fd}) {
      if (attempt == HandleType::fabric && !fabric_) continue;
      type = attempt;
      properties.requestedHandleTypes = driver_type(attempt);
      std::size_t granularity = 0;
      result = driver_->mem_get_allocation_granularity(&granularity, &properties,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      if (result == CUDA_SUCCESS && core::kWindowAlignment.count % granularity != 0) {
        return fail(ErrorCode::unsupported, "the driver maps in units of ", granularity,
                    " B, which do not divide ", core::kWindowAlignment.count, " B");
      }
      if (result == CUDA_SUCCESS) {
        result = driver_->mem_create(&handle, piece.region.size.count, &properties, 0);
      }
      if (result == CUDA_SUCCESS) {
        handles_.push_back(handle);
        return handle;
      }
      if (result != CUDA_ERROR_NOT_PERMITTED && result != CUDA_ERROR_NOT_SUPPORTED) break;
    }
    return fail(ErrorCode::internal, "cuMemCreate on ", piece.on_host ? "NUMA node " : "device ",
                piece.on_host ? numa_node : device_, " (", name_of(type),
                "): ", driver_->name_of(result));
  }

  [[nodiscard]] Result<void> map_piece(std::size_t index, CUmemGenericAllocationHandle handle) {
    const WindowPiece& piece = pieces[index];
    const CUdeviceptr at = address_ + piece.region.offset.count;
    if (const auto done = driver_->check(
            driver_->mem_map(at, piece.region.size.count, 0, handle, 0), "mapping piece ", index);
        !done) {
      return done;
    }
    mapped_.push_back(piece.region);
    std::vector<CUmemAccessDesc> access;
    int num_devices = 0;
    if (cudaGetDeviceCount(&num_devices) != cudaSuccess) num_devices = device_ + 1;
    for (int d = 0; d < num_devices; ++d) {
      int reaches = d == device_ || piece.on_host;
      if (!reaches && cudaDeviceCanAccessPeer(&reaches, d, device_) != cudaSuccess) {
        reaches = 0;
        cudaGetLastError();
      }
      if (reaches == 0) continue;
      access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {d}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    if (piece.on_host) {
      access.push_back(
          {{CU_MEM_LOCATION_TYPE_HOST_NUMA, {numa_node}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    return driver_->check(
        driver_->mem_set_access(at, piece.region.size.count, access.data(), access.size()),
        "access of ", access.size(), " places to piece ", index);
  }

  [[nodiscard]] Result<void> export_own(SegmentOffer& offer, FileDescriptor& exported) {
    offer.type = types[own_segment_];
    int fd = -1;
    void* const into = offer.type == HandleType::fabric ? static_cast<void*>(&offer.fabric)
                                                        : static_cast<void*>(&fd);
    const auto done = driver_->check(
        driver_->mem_export_to_shareable_handle(into, own_handle_, driver_type(offer.type), 0),
        "exporting the own segment (", name_of(offer.type), ")");
    if (done && offer.type == HandleType::posix_fd) exported = FileDescriptor(fd);
    return done;
  }

  std::shared_ptr<const DriverApi> driver_;
  std::shared_ptr<const NcclLibrary> library_;
  int device_ = 0;
  bool fabric_ = false, rdma_ = false;
  void* nccl_memory_ = nullptr;
  CUdeviceptr address_ = 0;
  Bytes reserved_;
  std::vector<core::Region> mapped_;
  std::vector<CUmemGenericAllocationHandle> handles_;
  std::size_t own_segment_ = 0;
  CUmemGenericAllocationHandle own_handle_ = 0;
};

WindowMemory::WindowMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WindowMemory::WindowMemory(WindowMemory&&) noexcept = default;
WindowMemory& WindowMemory::operator=(WindowMemory&&) noexcept = default;
WindowMemory::~WindowMemory() = default;

Result<WindowMemory> WindowMemory::create(std::shared_ptr<const DriverApi> driver,
                                          std::shared_ptr<const NcclLibrary> library,
                                          Rendezvous& ranks, int device, const WindowShape& shape,
                                          const rendezvous::HandlePassing& how) {
  const auto here = ranks.agree_on(sharing_ranks_of(ranks, shape));
  if (!here) return tl::unexpected<Error>(here.error());
  auto impl = std::make_unique<Impl>(std::move(driver), std::move(library), device, shape);
  Result<void> built;
  if (cudaSetDevice(device) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) {
    built = fail(ErrorCode::unsupported, "device ", device,
                 " cannot be used: ", cudaGetErrorString(cudaGetLastError()));
  } else if (auto pieces = pieces_of(shape, ranks.rank(), *here); !pieces) {
    built = tl::unexpected<Error>(pieces.error());
  } else {
    impl->pieces = std::move(*pieces);
    built = shape.kind == core::WindowKind::gpu ? impl->allocate_by_nccl() : impl->build_own();
  }
  if (const auto all = ranks.agree(built); !all) return tl::unexpected<Error>(all.error());
  if (shape.kind == core::WindowKind::hybrid_elastic) {
    const auto shared = ranks.agree(impl->share_segments(ranks, how));
    if (!shared) return tl::unexpected<Error>(shared.error());
  }
  return WindowMemory(std::move(impl));
}

std::byte* WindowMemory::base() const { return impl_->base(); }
Bytes WindowMemory::size() const { return impl_->size(); }
const WindowShape& WindowMemory::shape() const { return impl_->shape; }
const std::vector<WindowPiece>& WindowMemory::pieces() const { return impl_->pieces; }
const std::vector<HandleType>& WindowMemory::handle_types() const { return impl_->types; }
int WindowMemory::numa_node() const { return impl_->numa_node; }
bool WindowMemory::has_imported_pieces() const {
  return std::any_of(impl_->pieces.begin(), impl_->pieces.end(),
                     [](const WindowPiece& piece) { return piece.owner.has_value(); });
}

}  // namespace engram::nccl
