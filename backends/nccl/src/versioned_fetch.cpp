#include "engram/nccl/versioned_fetch.hpp"

#include <algorithm>
#include <vector>

#include "cuda_memory.hpp"

namespace engram::nccl {

class VersionedFetch::Impl {
 public:
  [[nodiscard]] Result<void> build(const Communicator& communicator, const FetchWindows& windows,
                                   const VersionedFetchSetup& setup) {
    const core::Router& router = setup.router;
    if (auto right = check_setup(communicator, windows, setup); !right) return right;
    int clock_khz = 0;
    if (auto told = check_cuda(
            cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, communicator.options().device),
            "clock rate");
        !told) {
      return told;
    }
    cycles_per_us = static_cast<std::uint64_t>(std::max(1, clock_khz / 1000));
    auto made = kernels::ErrorRecordBox::create();
    if (!made) return tl::unexpected(made.error());
    errors.emplace(std::move(*made));
    const std::size_t places = router.num_layers * sizeof(core::LayerPlace);
    auto block = make_device_bytes(places + sizeof(*args.again));
    if (!block) return tl::unexpected(block.error());
    memory = std::move(*block);
    args.again = reinterpret_cast<unsigned long long*>(memory.get() + places);
    auto copied = check_cuda(
        cudaMemcpy(memory.get(), router.layers, places, cudaMemcpyHostToDevice), "layers");
    if (copied) copied = check_cuda(cudaMemset(args.again, 0, sizeof(*args.again)), "counter");
    if (!copied) return copied;

    const DevicePlan& plan = communicator.plan();
    args.comm = communicator.device();
    args.storage = windows.storage->handle;
    args.buffer = windows.buffer->handle;
    args.host_segments = windows.layout.kind() != core::WindowKind::gpu;
    args.reads = {router,          setup.rows.value, setup.versions.value, nullptr,
                  setup.num_reads, setup.rows_base,  setup.before_base,    setup.after_base};
    args.reads.router.layers = reinterpret_cast<const core::LayerPlace*>(memory.get());
    args.self = router.self;
    args.max_attempts = setup.max_attempts;
    args.blocks = plan.has_network() ? std::min(setup.blocks, plan.num_qps) : setup.blocks;
    // All warps of a block share its QP.
    const std::uint32_t depth =
        plan.has_network() && plan.queue_depth > 0 ? plan.queue_depth : 1024;
    const std::uint64_t warps = std::uint64_t{args.blocks} * kVersionedWarps;
    const std::uint64_t share = (setup.num_reads + warps - 1) / warps;
    const std::uint32_t most = std::clamp(depth / kVersionedWarps, 1u, core::kWarpLanes);
    args.batch = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, most));
    args.error = errors->sink();
    return {};
  }

  VersionedReadArgs args;
  std::optional<kernels::ErrorRecordBox> errors;
  DeviceBytes memory;
  std::uint64_t cycles_per_us = 1;

 private:
  [[nodiscard]] static Result<void> check_setup(const Communicator& communicator,
                                                const FetchWindows& windows,
                                                const VersionedFetchSetup& setup) {
    const core::Router& router = setup.router;
    if (setup.rows.value >= router.num_layers || setup.versions.value >= router.num_layers ||
        router.layers[setup.versions.value].row_bytes != core::kVersionBytes.count ||
        router.layers[setup.versions.value].rows != router.layers[setup.rows.value].rows) {
      return fail(ErrorCode::invalid_argument, "rows of layer ", setup.rows.value,
                  " with versions in layer ", setup.versions.value, " of ", router.num_layers,
                  ": as many rows of ", core::kVersionBytes.count, " bytes are needed");
    }
    const std::uint64_t end = windows.layout.buffer_window_bytes().count;
    const std::uint64_t row = router.layers[setup.rows.value].row_bytes;
    const std::uint64_t words = setup.num_reads * core::kVersionBytes.count;
    if (setup.blocks == 0 || setup.max_attempts == 0 || setup.before_base % 8 != 0 ||
        setup.after_base % 8 != 0 || setup.rows_base + setup.num_reads * row > end ||
        setup.before_base + words > end || setup.after_base + words > end) {
      return fail(ErrorCode::invalid_argument, setup.num_reads, " reads of ", row, " bytes by ",
                  setup.blocks, " blocks to buffer offsets ", setup.rows_base, ", ",
                  setup.before_base, " and ", setup.after_base, " of ", end,
                  " bytes: versions are aligned to 8");
    }
    if (router.own == core::Path::rdma) {
      return fail(ErrorCode::unsupported, "versioned reads of the own rows through the network: ",
                  "they are loaded; a router made for compat routes all through it");
    }
    const bool network = (router.domain == core::Path::rdma && router.grid.num_nvlink > 1) ||
                         (router.far == core::Path::rdma && router.grid.num_rdma > 1);
    if (network && !communicator.plan().has_network()) {
      return fail(ErrorCode::invalid_argument,
                  "versioned reads through a network that is not there");
    }
    if (network && windows.layout.kind() == core::WindowKind::gpu &&
        windows.layout.num_segments() > 1) {
      return fail(ErrorCode::unsupported, "hybrid mode reads through the network from the rank of ",
                  "its rail, whose GPU holds no rows of others: use direct mode");
    }
    return {};
  }
};

VersionedFetch::VersionedFetch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
VersionedFetch::VersionedFetch(VersionedFetch&&) noexcept = default;
VersionedFetch& VersionedFetch::operator=(VersionedFetch&&) noexcept = default;
VersionedFetch::~VersionedFetch() = default;

Result<VersionedFetch> VersionedFetch::create(const Communicator& communicator,
                                              const FetchWindows& windows,
                                              const VersionedFetchSetup& setup) {
  auto impl = std::make_unique<Impl>();
  if (auto built = impl->build(communicator, windows, setup); !built) {
    return tl::unexpected(built.error());
  }
  return VersionedFetch(std::move(impl));
}

Result<void> VersionedFetch::read(const std::int64_t* indices, cudaStream_t stream, Nanos limit) {
  VersionedReadArgs args = impl_->args;
  args.reads.indices = indices;
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 1000) / 1000);
  args.limit_cycles = us * impl_->cycles_per_us;
  return launch_versioned_reads(args, stream);
}

Result<void> VersionedFetch::check() {
  const auto record = impl_->errors->take();
  if (!record) return {};
  return tl::unexpected(kernels::to_error(*record));
}

Result<std::uint64_t> VersionedFetch::count_again() const {
  unsigned long long again = 0;
  auto read = check_cuda(cudaDeviceSynchronize(), "versioned reads");
  if (read) {
    read = check_cuda(cudaMemcpy(&again, impl_->args.again, sizeof(again), cudaMemcpyDeviceToHost),
                      "rows read again");
  }
  if (!read) return tl::unexpected(read.error());
  return std::uint64_t{again};
}

}  // namespace engram::nccl
