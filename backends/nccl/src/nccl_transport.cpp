#include "engram/nccl/nccl_transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "cuda_memory.hpp"
#include "engram/nccl/network_fetch.hpp"
#include "engram/nccl/rank_barrier.hpp"
#include "fetch_pool.hpp"
#include "read_check.hpp"

namespace engram::nccl {
namespace {

/// What a kernel's own deadline is given before the host gives it up.
constexpr Nanos kGrace = std::chrono::seconds(2);
/// The host polls without a pause this long, then sleeps between looks.
constexpr Nanos kSpin = std::chrono::milliseconds(2);

Nanos steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<core::Capabilities> capabilities_of(const Communicator& communicator) {
  int num_sms = 0;
  if (auto told = check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount,
                                                    communicator.options().device),
                             "device ", communicator.options().device);
      !told) {
    return tl::unexpected(told.error());
  }
  core::Capabilities out;
  out.backend = "nccl";
  out.paths.rdma = communicator.plan().has_network();
  out.limits.num_sms = static_cast<std::uint32_t>(num_sms);
  out.limits.direct_blocks = out.limits.num_sms;  // the gather kernels' own planner decides
  out.limits.warps_per_block = kMaxFetchWarps;
  out.ordered_completions = false;
  return out;
}

class NcclTransport::Impl {
 public:
  Impl(std::shared_ptr<const DriverApi> driver_api, Communicator& comm, core::Capabilities what,
       const TransportOptions& how)
      : driver(std::move(driver_api)),
        communicator(&comm),
        capabilities(std::move(what)),
        options(how) {}

  [[nodiscard]] Result<void> open(const core::WindowLayout& wanted, const core::QueueShape& queues,
                                  bool generated) {
    rendezvous::Rendezvous& ranks = communicator->ranks();
    const int device = communicator->options().device;
    Result<void> ready = check_cuda(cudaSetDevice(device), "device ", device);
    if (buffer_memory) ready = fail(ErrorCode::invalid_argument, "windows are opened once");
    if (generated) {
      ready = fail(ErrorCode::unsupported, "generated storage: a GPU reads rows from memory");
    }
    if (auto all = ranks.agree(ready); !all) return all;
    windows.layout = wanted;
    const bool gpu = wanted.kind() == core::WindowKind::gpu;
    const WindowShape storage{
        wanted.kind(),
        gpu ? std::max(wanted.storage_window_bytes(), core::kWindowAlignment) : Bytes{},
        gpu ? Bytes{} : std::max(wanted.stride(), core::kWindowAlignment),
        wanted.kind() == core::WindowKind::hybrid_elastic ? wanted.num_segments() : 0};
    auto buffer_made =
        WindowMemory::create(driver, library(), ranks, device,
                             {core::WindowKind::gpu, wanted.buffer_window_bytes(), {}, 0});
    if (!buffer_made) return within(buffer_made.error(), "buffer window");
    buffer_memory.emplace(std::move(*buffer_made));
    auto storage_made = WindowMemory::create(driver, library(), ranks, device, storage);
    if (!storage_made) return within(storage_made.error(), "storage window");
    storage_memory.emplace(std::move(*storage_made));
    // No rank may add to a barrier's word that its owner has yet to clear.
    if (auto all = ranks.agree(prepare()); !all) return all;
    for (const auto& [memory, into] : {std::pair{&*buffer_memory, &windows.buffer},
                                       std::pair{&*storage_memory, &windows.storage}}) {
      auto registered = communicator->register_window(*memory);
      if (!registered) return tl::unexpected(registered.error());
      *into = *registered;
    }
    if (auto opened = communicator->open_device(queues); !opened) return opened;
    num_contexts = queues.num_qps;
    windows.host_storage = gpu ? nullptr : storage_memory->base();
    pool.emplace(*communicator, windows, options.assist_threads);
    is_open = true;
    return {};
  }

  [[nodiscard]] Result<void> prepare() {
    Result<void> clear =
        check_cuda(cudaMemset(buffer_memory->base(), 0, kBarrierStateBytes.count), "workspace");
    if (clear) clear = check_cuda(cudaDeviceSynchronize(), "workspace");
    if (!clear) return clear;
    auto made_stream = make_stream();
    if (!made_stream) return tl::unexpected(made_stream.error());
    stream = std::move(*made_stream);
    auto made_event = make_event();
    if (!made_event) return tl::unexpected(made_event.error());
    done = std::move(*made_event);
    auto made_errors = kernels::ErrorRecordBox::create();
    if (!made_errors) return tl::unexpected(made_errors.error());
    errors.emplace(std::move(*made_errors));
    int clock_khz = 0;
    auto told = check_cuda(
        cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, communicator->options().device),
        "clock rate");
    cycles_per_us = static_cast<std::uint64_t>(std::max(1, clock_khz / 1000));
    return told;
  }

  [[nodiscard]] std::shared_ptr<const NcclLibrary> library() const {
    // The communicator keeps it open for longer than any window lives.
    return {std::shared_ptr<void>{}, &communicator->library()};
  }

  [[nodiscard]] std::string who() const {
    return fmt::format("rank {}", communicator->rank().value);
  }

  [[nodiscard]] Result<core::Ticket> post(const core::FetchPost& fetch) {
    if (!is_open) return fail(ErrorCode::invalid_argument, who(), ": post before open");
    if (auto right = check_reads(fetch, windows.layout); !right) {
      return within(right.error(), who());
    }
    auto made = pool->take(fetch);
    if (!made) return tl::unexpected(made.error());
    PooledFetch& state = **made;
    if (!fetch.indices.empty()) {
      // From pageable memory: the bytes are copied before the call returns.
      Result<void> started = check_cuda(
          cudaMemcpyAsync(state.indices.get(), fetch.indices.data(), fetch.indices.size_bytes(),
                          cudaMemcpyHostToDevice, stream.get()),
          "indices to the GPU");
      const auto* on_gpu = reinterpret_cast<const std::int64_t*>(state.indices.get());
      if (started) started = state.fetch.issue(on_gpu, stream.get());
      if (!started) return tl::unexpected(started.error());
    }
    const core::Ticket ticket{next_ticket++};
    in_flight.emplace(ticket.id, std::move(*made));
    return ticket;
  }

  /// Until all that is on the stream now has run.
  [[nodiscard]] Result<void> join(std::string_view what, Nanos limit) {
    if (auto marked = check_cuda(cudaEventRecord(done.get(), stream.get()), what); !marked) {
      return marked;
    }
    const Nanos start = steady_now();
    for (;;) {
      const cudaError_t state = cudaEventQuery(done.get());
      if (state == cudaSuccess) return {};
      if (state != cudaErrorNotReady) return check_cuda(state, who(), ": ", what);
      const Nanos spent = steady_now() - start;
      if (spent >= limit) {
        if (auto alive = communicator->async_error(); !alive) return alive;
        return fail(ErrorCode::timed_out, who(), ": ", what, " is not done after ",
                    microseconds(spent) / 1e3, " ms");
      }
      if (spent > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  [[nodiscard]] Result<core::IssueCounts> issued(core::Ticket ticket, Nanos limit) {
    const auto found = in_flight.find(ticket.id);
    if (found == in_flight.end()) {
      return fail(ErrorCode::invalid_argument, who(), ": ticket ", ticket.id, " is not in flight");
    }
    PooledFetch& state = *found->second;
    if (state.counted) return state.posted;
    if (auto joined = join("issuing a fetch", limit); !joined) {
      return tl::unexpected(joined.error());
    }
    const auto posted =
        state.waited.empty() || !state.indices ? core::IssueCounts{} : state.fetch.count_posted();
    if (!posted) return tl::unexpected(posted.error());
    state.posted = *posted;
    state.counted = true;
    requests += state.posted.requests;
    doorbells += state.posted.doorbells;
    return state.posted;
  }

  [[nodiscard]] Result<void> wait(core::Ticket ticket, LayerIndex layer, Nanos limit) {
    const auto found = in_flight.find(ticket.id);
    if (found == in_flight.end() || layer.value >= found->second->waited.size() ||
        found->second->waited[layer.value]) {
      return fail(ErrorCode::invalid_argument, who(), ": ticket ", ticket.id, ", layer ",
                  layer.value, " is not in flight");
    }
    PooledFetch& state = *found->second;
    if (state.indices) {
      const Nanos start = steady_now();
      if (auto posted = issued(ticket, limit); !posted) return tl::unexpected(posted.error());
      const Nanos left = limit - (steady_now() - start);
      if (state.fetch.uses_network()) {
        auto ended = state.fetch.wait(layer, stream.get(), left);
        if (ended) ended = join("a fetch", left + kGrace);
        if (!ended) return ended;
      }
      if (auto right = state.fetch.check(); !right) return right;
    }
    state.waited[layer.value] = true;
    if (std::ranges::all_of(state.waited, [](bool w) { return w; })) {
      completions += state.posted.requests;
      pool->give_back(std::move(found->second));
      in_flight.erase(found);
    }
    return {};
  }

  [[nodiscard]] Result<void> barrier(Nanos limit) {
    if (!is_open) return fail(ErrorCode::invalid_argument, who(), ": barrier before open");
    const core::RankGrid& grid = communicator->grid();
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 1000) / 1000);
    RankBarrierArgs args;
    args.comm = communicator->device();
    args.buffer = windows.buffer->handle;
    args.words = grid.num_nvlink > 1;
    args.team = args.words ? core::Team::rail : core::Team::world;
    args.network = capabilities.paths.rdma;
    args.num_contexts = args.network ? num_contexts : 0;
    args.grid = grid;
    args.self = communicator->rank();
    args.epoch = barriers;
    args.limit_cycles = us * cycles_per_us;
    args.error = errors->sink();
    Result<void> passed = launch_rank_barrier(args, stream.get());
    if (passed) passed = join("a barrier", limit + kGrace);
    if (passed) {
      if (const auto record = errors->take()) {
        passed = tl::unexpected(kernels::to_error(*record));
      }
    }
    if (!passed) return within(passed.error(), "barrier ", barriers);
    ++barriers;
    return {};
  }

  std::shared_ptr<const DriverApi> driver;
  Communicator* communicator;
  core::Capabilities capabilities;
  TransportOptions options;
  std::optional<WindowMemory> buffer_memory, storage_memory;
  FetchWindows windows;
  OwnedStream stream;
  OwnedEvent done;
  std::optional<kernels::ErrorRecordBox> errors;
  std::optional<FetchPool> pool;
  std::map<std::uint64_t, std::unique_ptr<PooledFetch>> in_flight;
  std::uint64_t next_ticket = 1, barriers = 0, cycles_per_us = 1;
  std::uint64_t requests = 0, completions = 0, doorbells = 0;
  std::uint32_t num_contexts = 0;
  bool is_open = false;
};

NcclTransport::NcclTransport(std::shared_ptr<const DriverApi> driver, Communicator& communicator,
                             core::Capabilities capabilities, const TransportOptions& options)
    : impl_(std::make_unique<Impl>(std::move(driver), communicator, std::move(capabilities),
                                   options)) {}
NcclTransport::~NcclTransport() = default;

const core::Capabilities& NcclTransport::capabilities() const { return impl_->capabilities; }
Rank NcclTransport::rank() const { return impl_->communicator->rank(); }
const core::RankGrid& NcclTransport::grid() const { return impl_->communicator->grid(); }
Nanos NcclTransport::now() const { return steady_now(); }
std::uint64_t NcclTransport::requests() const { return impl_->requests; }
std::uint64_t NcclTransport::completions() const { return impl_->completions; }
std::uint64_t NcclTransport::doorbells() const { return impl_->doorbells; }

Result<void> NcclTransport::open(const core::WindowLayout& layout, const core::QueueShape& queues,
                                 std::optional<core::SegmentFunction> segment) {
  return impl_->open(layout, queues, segment.has_value());
}

Result<void> NcclTransport::write_segment(Bytes offset, std::span<const std::byte> bytes) {
  const core::WindowLayout& layout = impl_->windows.layout;
  const Bytes stride = layout.stride();
  if (!impl_->is_open || bytes.size() > stride.count ||
      offset.count > stride.count - bytes.size()) {
    return fail(ErrorCode::out_of_range, impl_->who(), ": ", bytes.size(), " bytes at offset ",
                offset.count, " of a segment of ", stride.count, " bytes");
  }
  if (bytes.empty()) return {};
  const std::uint32_t segment = layout.num_segments() == 1 ? 0 : grid().scaleup_index(rank());
  std::byte* const at = impl_->storage_memory->base() + (segment * stride).count + offset.count;
  if (layout.kind() != core::WindowKind::gpu) {
    std::memcpy(at, bytes.data(), bytes.size());
    return {};
  }
  cudaStream_t stream = impl_->stream.get();
  auto written = check_cuda(
      cudaMemcpyAsync(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), "a write");
  return written ? check_cuda(cudaStreamSynchronize(stream), "a write") : written;
}

Result<void> NcclTransport::read_buffer(Bytes offset, std::span<std::byte> out) const {
  const Bytes size = impl_->windows.layout.buffer_window_bytes();
  if (!impl_->is_open || out.size() > size.count || offset.count > size.count - out.size()) {
    return fail(ErrorCode::out_of_range, impl_->who(), ": ", out.size(), " bytes at offset ",
                offset.count, " of a buffer window of ", size.count, " bytes");
  }
  if (out.empty()) return {};
  cudaStream_t stream = impl_->stream.get();
  auto read = check_cuda(cudaMemcpyAsync(out.data(), impl_->windows.buffer->base + offset.count,
                                         out.size(), cudaMemcpyDeviceToHost, stream),
                         "reading rows");
  return read ? check_cuda(cudaStreamSynchronize(stream), "reading rows") : read;
}

Result<core::Ticket> NcclTransport::post(const core::FetchPost& fetch) {
  return impl_->post(fetch);
}
Result<core::IssueCounts> NcclTransport::issued(core::Ticket ticket, Nanos limit) {
  return impl_->issued(ticket, limit);
}
Result<void> NcclTransport::wait(core::Ticket ticket, LayerIndex layer, Nanos limit) {
  return impl_->wait(ticket, layer, limit);
}
Result<void> NcclTransport::barrier(Nanos limit) { return impl_->barrier(limit); }

Result<StreamFetch> NcclTransport::prepare(const StreamFetchSetup& setup) const {
  if (!impl_->is_open) {
    return fail(ErrorCode::invalid_argument, impl_->who(), ": prepare before open");
  }
  return StreamFetch::create(*impl_->communicator, impl_->windows, setup);
}

Result<VersionedFetch> NcclTransport::prepare(const VersionedFetchSetup& setup) const {
  if (!impl_->is_open) {
    return fail(ErrorCode::invalid_argument, impl_->who(), ": prepare before open");
  }
  return VersionedFetch::create(*impl_->communicator, impl_->windows, setup);
}

Result<DeviceHandles> NcclTransport::handles() const {
  if (!impl_->is_open) {
    return fail(ErrorCode::invalid_argument, impl_->who(), ": handles before open");
  }
  return DeviceHandles{impl_->communicator->device(), impl_->windows.storage->handle,
                       impl_->windows.buffer->handle, impl_->windows.storage->base,
                       impl_->windows.buffer->base,   impl_->cycles_per_us};
}

}  // namespace engram::nccl
