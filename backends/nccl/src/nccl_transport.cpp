#include "engram/nccl/nccl_transport.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "cuda_memory.hpp"
#include "engram/nccl/network_fetch.hpp"
#include "engram/nccl/rank_barrier.hpp"

namespace engram::nccl {
namespace {

/// What a kernel's own deadline is given before the host gives it up.
constexpr Nanos kGrace = std::chrono::seconds(2);
/// The host polls without a pause this long, then sleeps between looks.
constexpr Nanos kSpin = std::chrono::milliseconds(2);

Nanos steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

bool same(const StreamFetchSetup& a, const core::FetchPost& b) {
  const core::IndexShape& shape = a.shape;
  const core::Router &x = a.router, &y = b.router;
  return shape.layers == b.shape.layers && shape.tokens == b.shape.tokens &&
         shape.entries_per_token == b.shape.entries_per_token && a.plan == b.plan &&
         std::ranges::equal(a.dst_base, b.dst_base) && x.own == y.own && x.domain == y.domain &&
         x.far == y.far && x.team == y.team && x.num_layers == y.num_layers &&
         std::equal(x.layers, x.layers + x.num_layers, y.layers);
}

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
  Impl(std::shared_ptr<const DriverApi> driver_api, Communicator& comm, core::Capabilities what)
      : driver(std::move(driver_api)), communicator(&comm), capabilities(std::move(what)) {}

  /// A fetch with its indices on the GPU; kept for the next of its shape.
  struct InFlight {
    explicit InFlight(StreamFetch made) : fetch(std::move(made)) {}
    StreamFetch fetch;
    DeviceBytes indices;
    std::vector<bool> waited;
    std::uint64_t posted = 0;
    bool counted = false;
  };

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
        gpu ? Bytes{} : std::max(wanted.stride(), core::kWindowAlignment)};
    auto buffer_made =
        WindowMemory::create(driver, library(), ranks, device,
                             {core::WindowKind::gpu, wanted.buffer_window_bytes(), {}});
    if (!buffer_made) return within(buffer_made.error(), "buffer window");
    buffer_memory.emplace(std::move(*buffer_made));
    auto storage_made = WindowMemory::create(driver, library(), ranks, device, storage);
    if (!storage_made) return within(storage_made.error(), "storage window");
    storage_memory.emplace(std::move(*storage_made));
    Result<void> fits;
    if (wanted.kind() == core::WindowKind::hybrid_elastic &&
        storage_memory->pieces().size() != wanted.num_segments()) {
      fits =
          fail(ErrorCode::unsupported, who(), ": hybrid host windows hold one segment a rank of ",
               "an NVLink domain (", wanted.num_segments(), "), but this host has ",
               storage_memory->pieces().size(), " ranks");
    }
    if (auto all = ranks.agree(fits); !all) return all;
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

  /// Every read within both windows, and every index a row; else the first that is not.
  [[nodiscard]] Result<void> check_reads(const core::FetchPost& fetch) const {
    const std::uint64_t buffer_end = windows.layout.buffer_window_bytes().count;
    const std::uint64_t per_layer = fetch.shape.per_layer();
    if (fetch.indices.size() != fetch.shape.count() ||
        fetch.dst_base.size() != fetch.shape.layers) {
      return fail(ErrorCode::invalid_argument, who(), ": ", fetch.indices.size(), " indices and ",
                  fetch.dst_base.size(), " places for a fetch of ", fetch.shape.layers,
                  " layers of ", per_layer);
    }
    for (std::uint32_t l = 0; l < fetch.shape.layers; ++l) {
      const core::LayerPlace& place = fetch.router.layers[l];
      for (std::uint64_t i = 0; i < per_layer; ++i) {
        const std::int64_t index = fetch.indices[l * per_layer + i];
        const std::uint64_t dst = fetch.dst_base[l] + i * place.row_bytes;
        const bool row = index >= -1 && index < static_cast<std::int64_t>(place.rows);
        const std::uint64_t src = row && index >= 0 ? fetch.router.route(l, index).owner_offset : 0;
        const bool within_storage =
            row && (index < 0 || src + place.row_bytes <= windows.layout.stride().count);
        if (within_storage && dst + place.row_bytes <= buffer_end) continue;
        return fail(ErrorCode::out_of_range, who(), ": layer ", l, ", token ",
                    i / fetch.shape.entries_per_token, ", slot ", i % fetch.shape.entries_per_token,
                    ": row ", index, " of ", place.rows, " to buffer offset ", dst, ": ",
                    place.row_bytes,
                    within_storage ? " bytes end past the buffer window of "
                                   : " bytes are not within the storage segment of ",
                    within_storage ? buffer_end : windows.layout.stride().count, " bytes");
      }
    }
    return {};
  }

  [[nodiscard]] Result<std::unique_ptr<InFlight>> make_fetch(const core::FetchPost& post) {
    const auto found =
        std::ranges::find_if(idle, [&](const auto& f) { return same(f->fetch.setup(), post); });
    if (found != idle.end()) {
      auto out = std::move(*found);
      idle.erase(found);
      return out;
    }
    auto fetch = StreamFetch::create(
        *communicator, windows,
        {post.router, post.plan, post.shape, {post.dst_base.begin(), post.dst_base.end()}});
    if (!fetch) return tl::unexpected(fetch.error());
    auto out = std::make_unique<InFlight>(std::move(*fetch));
    auto indices = make_device_bytes(post.indices.size_bytes());
    if (!indices) return tl::unexpected(indices.error());
    out->indices = std::move(*indices);
    return out;
  }

  [[nodiscard]] Result<core::Ticket> post(const core::FetchPost& fetch) {
    if (!is_open) return fail(ErrorCode::invalid_argument, who(), ": post before open");
    if (auto right = check_reads(fetch); !right) return tl::unexpected(right.error());
    auto made = make_fetch(fetch);
    if (!made) return tl::unexpected(made.error());
    InFlight& state = **made;
    state.waited.assign(fetch.shape.layers, false);
    state.counted = false;
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
    InFlight& state = *found->second;
    if (state.counted) return core::IssueCounts{state.posted, 0};
    if (auto joined = join("issuing a fetch", limit); !joined) {
      return tl::unexpected(joined.error());
    }
    const auto posted =
        state.waited.empty() || !state.indices ? std::uint64_t{0} : state.fetch.count_posted();
    if (!posted) return tl::unexpected(posted.error());
    state.posted = *posted;
    state.counted = true;
    requests += state.posted;
    return core::IssueCounts{state.posted, 0};
  }

  [[nodiscard]] Result<void> wait(core::Ticket ticket, LayerIndex layer, Nanos limit) {
    const auto found = in_flight.find(ticket.id);
    if (found == in_flight.end() || layer.value >= found->second->waited.size() ||
        found->second->waited[layer.value]) {
      return fail(ErrorCode::invalid_argument, who(), ": ticket ", ticket.id, ", layer ",
                  layer.value, " is not in flight");
    }
    InFlight& state = *found->second;
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
      completions += state.posted;
      idle.push_back(std::move(found->second));
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
  std::optional<WindowMemory> buffer_memory, storage_memory;
  FetchWindows windows;
  OwnedStream stream;
  OwnedEvent done;
  std::optional<kernels::ErrorRecordBox> errors;
  std::map<std::uint64_t, std::unique_ptr<InFlight>> in_flight;
  std::vector<std::unique_ptr<InFlight>> idle;
  std::uint64_t next_ticket = 1, barriers = 0, cycles_per_us = 1;
  std::uint64_t requests = 0, completions = 0;
  std::uint32_t num_contexts = 0;
  bool is_open = false;
};

NcclTransport::NcclTransport(std::shared_ptr<const DriverApi> driver, Communicator& communicator,
                             core::Capabilities capabilities)
    : impl_(std::make_unique<Impl>(std::move(driver), communicator, std::move(capabilities))) {}
NcclTransport::~NcclTransport() = default;

const core::Capabilities& NcclTransport::capabilities() const { return impl_->capabilities; }
Rank NcclTransport::rank() const { return impl_->communicator->rank(); }
const core::RankGrid& NcclTransport::grid() const { return impl_->communicator->grid(); }
Nanos NcclTransport::now() const { return steady_now(); }
std::uint64_t NcclTransport::requests() const { return impl_->requests; }
std::uint64_t NcclTransport::completions() const { return impl_->completions; }

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

}  // namespace engram::nccl
