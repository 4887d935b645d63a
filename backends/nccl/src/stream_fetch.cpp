#include "engram/nccl/stream_fetch.hpp"

#include <algorithm>
#include <cstring>

#include "cuda_memory.hpp"
#include "direct_rows.hpp"
#include "engram/nccl/network_fetch.hpp"

namespace engram::nccl {
namespace {

using core::Path;

/// A launch of the gather kernels, and where its workspace lies.
struct Gather : DirectGather {
  Bytes workspace_offset, workspace;
};

constexpr Bytes kPartAlignment{256};

/// Parts of one block of device memory, one behind the other.
class Parts {
 public:
  Bytes add(std::uint64_t bytes) {
    const Bytes at = end_;
    end_ = align_up(end_ + Bytes{bytes}, kPartAlignment);
    return at;
  }
  [[nodiscard]] Bytes size() const { return end_; }

 private:
  Bytes end_;
};

bool reads_network(const core::Router& router) {
  const core::RankGrid& grid = router.grid;
  return router.own == Path::rdma || (grid.num_nvlink > 1 && router.domain == Path::rdma) ||
         (grid.num_rdma > 1 && router.far == Path::rdma);
}

/// Where each owner's segment lies for this GPU; null where the network serves it.
std::vector<const std::byte*> segments(const core::Router& router, const FetchWindows& windows) {
  const core::RankGrid& grid = router.grid;
  std::vector<const std::byte*> out(grid.num_ranks(), nullptr);
  for (std::uint32_t r = 0; r < out.size(); ++r) {
    const Path path = router.path_to(Rank{r});
    if (path == Path::rdma || path == Path::none) continue;
    const std::uint32_t segment =
        windows.layout.num_segments() == 1 ? 0 : grid.scaleup_index(Rank{r});
    out[r] = windows.storage->lsa_pointer(Peer{grid.nvlink_index(Rank{r})},
                                          segment * windows.layout.stride());
  }
  return out;
}

/// The same for this process's CPU: its own segment, and in a hybrid window those of its domain.
std::vector<const std::byte*> host_segments(const core::Router& router,
                                            const FetchWindows& windows) {
  const core::RankGrid& grid = router.grid;
  std::vector<const std::byte*> out(grid.num_ranks(), nullptr);
  if (windows.host_storage == nullptr) return out;
  const bool own_alone = windows.layout.num_segments() == 1;
  for (std::uint32_t r = 0; r < out.size(); ++r) {
    const bool reached =
        Rank{r} == router.self || (!own_alone && grid.same_domain(Rank{r}, router.self));
    if (!reached || router.path_to(Rank{r}) != Path::host) continue;
    const std::uint32_t segment = own_alone ? 0 : grid.scaleup_index(Rank{r});
    out[r] = windows.host_storage + (segment * windows.layout.stride()).count;
  }
  return out;
}

}  // namespace

class StreamFetch::Impl {
 public:
  explicit Impl(const StreamFetchSetup& wanted) : setup(wanted) {}

  [[nodiscard]] Result<void> build(const Communicator& communicator, const FetchWindows& windows) {
    int num_sms = 0, clock_khz = 0;
    const int device = communicator.options().device;
    for (const auto& [into, which] : {std::pair{&num_sms, cudaDevAttrMultiProcessorCount},
                                      std::pair{&clock_khz, cudaDevAttrClockRate}}) {
      if (auto told = check_cuda(cudaDeviceGetAttribute(into, which, device), "device ", device);
          !told) {
        return told;
      }
    }
    cycles_per_us = static_cast<std::uint64_t>(std::max(1, clock_khz / 1000));
    auto made = kernels::ErrorRecordBox::create();
    if (!made) return tl::unexpected(made.error());
    errors = std::make_unique<kernels::ErrorRecordBox>(std::move(*made));
    places.assign(setup.router.layers, setup.router.layers + setup.router.num_layers);
    setup.router.layers = places.data();
    uses_network = reads_network(setup.router) && setup.shape.count() > 0;

    Parts parts;
    const auto owners = segments(setup.router, windows);
    const Bytes owners_at = parts.add(owners.size() * sizeof(owners[0]));
    if (auto planned = plan_gathers(windows, owners, num_sms, parts); !planned) return planned;
    const Bytes places_at = parts.add(places.size() * sizeof(places[0]));
    const Bytes bases_at = parts.add(setup.dst_base.size() * sizeof(setup.dst_base[0]));
    network.plan = setup.plan;
    network.reads.router = setup.router;
    network.reads.router.num_layers = setup.shape.layers;
    const Bytes tickets_at =
        parts.add(uses_network ? network.num_tickets() * sizeof(*network.tickets) : 0);
    auto block = make_device_bytes(parts.size().count);
    if (!block) return tl::unexpected(block.error());
    memory = std::move(*block);

    const auto copy = [&](Bytes to, const void* from, std::size_t bytes) {
      return check_cuda(cudaMemcpy(memory.get() + to.count, from, bytes, cudaMemcpyHostToDevice),
                        "a fetch's ", "constants");
    };
    Result<void> done = copy(owners_at, owners.data(), owners.size() * sizeof(owners[0]));
    if (done) done = copy(places_at, places.data(), places.size() * sizeof(places[0]));
    if (done) done = copy(bases_at, setup.dst_base.data(), setup.dst_base.size() * 8);
    for (Gather& gather : gathers) {
      if (!done) return done;
      if (owners.size() > kernels::kInlineOwners) {
        gather.args.owners.device_base =
            reinterpret_cast<const std::byte* const*>(memory.get() + owners_at.count);
      }
      done = kernels::prepare_fetch(gather.args, gather.plan,
                                    memory.get() + gather.workspace_offset.count, nullptr);
    }
    if (done && uses_network) {
      done = set_network(communicator, windows, places_at, bases_at, tickets_at);
    }
    if (done) done = check_cuda(cudaDeviceSynchronize(), "preparing a fetch");
    return done ? make_events() : done;
  }

  [[nodiscard]] Result<void> issue(const std::int64_t* indices, cudaStream_t stream) {
    network.reads.indices = indices;
    const bool aside = uses_network || assisted || !setup.scales.empty();
    if (aside) {
      Result<void> forked = check_cuda(cudaEventRecord(fork.get(), stream), "fork");
      if (forked) forked = check_cuda(cudaStreamWaitEvent(side.get(), fork.get()), "fork");
      if (forked) forked = launch_aside(indices);
      if (forked) forked = check_cuda(cudaEventRecord(join.get(), side.get()), "join");
      if (!forked) return forked;
    }
    for (Gather& gather : gathers) {
      if (!gather.loads) continue;
      gather.args.indices = indices + gather.first_layer * setup.shape.per_layer();
      if (auto launched = kernels::launch_fetch_rows(gather.args, gather.plan,
                                                     memory.get() + gather.workspace_offset.count,
                                                     gather.workspace, stream);
          !launched) {
        return launched;
      }
    }
    if (aside) {
      if (auto joined = check_cuda(cudaStreamWaitEvent(stream, join.get()), "join"); !joined) {
        return joined;
      }
    }
    issued_on = stream;
    return check_cuda(cudaEventRecord(issued.get(), stream), "the end of an issue");
  }

  [[nodiscard]] Result<void> wait(LayerIndex layer, cudaStream_t stream, Nanos limit) {
    if (layer.value >= setup.shape.layers) {
      return fail(ErrorCode::out_of_range, "layer ", layer.value, " of a fetch of ",
                  setup.shape.layers);
    }
    if (stream != issued_on) {
      if (auto ordered = check_cuda(cudaStreamWaitEvent(stream, issued.get()), "wait"); !ordered) {
        return ordered;
      }
    }
    if (!uses_network) return {};
    const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 1000) / 1000);
    return launch_wait_reads(network, layer, us * cycles_per_us, stream);
  }

  [[nodiscard]] std::vector<kernels::FetchPlan> plans() const {
    std::vector<kernels::FetchPlan> out;
    for (const Gather& gather : gathers) {
      out.push_back(gather.plan);
      out.back().assisted = gather.assisted.has_value();
    }
    return out;
  }

  [[nodiscard]] Result<core::IssueCounts> count_posted() const {
    if (!uses_network) return core::IssueCounts{};
    std::vector<core::UnitTicket<ncclGinRequest_t>> tickets(network.num_tickets());
    if (auto read =
            check_cuda(cudaMemcpy(tickets.data(), network.tickets,
                                  tickets.size() * sizeof(tickets[0]), cudaMemcpyDeviceToHost),
                       "counting posted reads");
        !read) {
      return tl::unexpected(read.error());
    }
    core::IssueCounts counts;
    for (const auto& ticket : tickets) {
      counts.requests += ticket.posted;
      counts.doorbells += ticket.doorbells;
    }
    return counts;
  }

  StreamFetchSetup setup;
  std::unique_ptr<kernels::ErrorRecordBox> errors;
  bool uses_network = false;
  bool assisted = false;  ///< host threads gather some rows

 private:
  [[nodiscard]] Result<void> plan_gathers(const FetchWindows& windows,
                                          const std::vector<const std::byte*>& owners, int num_sms,
                                          Parts& parts) {
    DirectRowsInput input{.router = setup.router,
                          .places = places,
                          .shape = setup.shape,
                          .dst_base = setup.dst_base,
                          .buffer = windows.buffer->base,
                          .owners = owners,
                          .host_owners = host_segments(setup.router, windows),
                          .num_sms = num_sms,
                          .sm_limit = static_cast<int>(setup.plan.direct_blocks),
                          .distinct_share = setup.distinct_share,
                          .assist = {},
                          .errors = errors->sink()};
    if (setup.assist) input.assist = setup.assist->options();
    const auto planned = plan_direct_rows(input);
    if (!planned) return tl::unexpected(planned.error());
    for (const DirectGather& direct : *planned) {
      Gather gather{direct, {}, {}};
      assisted |= gather.assisted.has_value();
      const auto need = kernels::fetch_workspace(gather.args, gather.plan);
      if (!need) return tl::unexpected(need.error());
      gather.workspace = *need;
      gather.workspace_offset = parts.add(need->count);
      gathers.push_back(gather);
    }
    return check_scales();
  }

  [[nodiscard]] Result<void> check_scales() const {
    for (const FetchScales& scales : setup.scales) {
      const bool fits = scales.layer.value < setup.shape.layers && scales.packs_per_row > 0 &&
                        scales.packs != nullptr && scales.out != nullptr;
      if (fits) continue;
      return fail(ErrorCode::invalid_argument, "scales of layer ", scales.layer.value, " of ",
                  setup.shape.layers, ", ", scales.packs_per_row,
                  " packs a row: a layer of the fetch, packs and addresses are needed");
    }
    return {};
  }

  [[nodiscard]] Result<void> gather_scales(const std::int64_t* indices, cudaStream_t stream) const {
    for (const FetchScales& scales : setup.scales) {
      const auto rows = static_cast<std::int64_t>(places[scales.layer.value].rows);
      kernels::GatherScalesArgs args;
      args.indices = indices + scales.layer.value * setup.shape.per_layer();
      args.scales = scales.out;
      args.num_tokens = static_cast<std::int64_t>(setup.shape.tokens);
      args.entries_per_token = static_cast<int>(setup.shape.entries_per_token);
      args.packs_per_row = scales.packs_per_row;
      args.layout = scales.layout;
      args.num_rows = rows;
      args.entries_per_owner = kernels::FastDivide(std::max<std::uint64_t>(1, rows));
      args.owners.inline_base[0] = reinterpret_cast<const std::byte*>(scales.packs);
      args.owners.num_owners = 1;
      args.error = errors->sink();
      args.rank = static_cast<int>(setup.router.self.value);
      args.layer = static_cast<int>(scales.layer.value);
      if (auto launched = kernels::launch_gather_scales(args, stream); !launched) return launched;
    }
    return {};
  }

  /// What runs beside the rows reached by loads: posting, scales, host threads.
  [[nodiscard]] Result<void> launch_aside(const std::int64_t* indices) {
    Result<void> done = uses_network ? launch_issue_reads(network, side.get()) : Result<void>{};
    for (Gather& gather : gathers) {
      if (!done || !gather.assisted) continue;
      gather.assisted->indices = indices + gather.first_layer * setup.shape.per_layer();
      done = setup.assist->launch(*gather.assisted, side.get());
    }
    return done ? gather_scales(indices, side.get()) : done;
  }

  [[nodiscard]] Result<void> set_network(const Communicator& communicator,
                                         const FetchWindows& windows, Bytes places_at,
                                         Bytes bases_at, Bytes tickets_at) {
    const DevicePlan& plan = communicator.plan();
    if (windows.layout.kind() == core::WindowKind::gpu && windows.layout.num_segments() > 1) {
      return fail(ErrorCode::unsupported, "hybrid mode reads through the network from the rank of ",
                  "its rail, whose GPU holds no rows of the other ",
                  windows.layout.num_segments() - 1,
                  " ranks of its domain: use direct mode, or rows in host memory");
    }
    if (!plan.has_network() || setup.plan.num_qps > plan.num_qps) {
      return fail(ErrorCode::invalid_argument, "a fetch by ", setup.plan.num_qps,
                  " QPs on a communicator that has ", plan.has_network() ? plan.num_qps : 0);
    }
    network.comm = communicator.device();
    network.storage = windows.storage->handle;
    network.buffer = windows.buffer->handle;
    network.host_segments = windows.layout.kind() != core::WindowKind::gpu;
    network.self = setup.router.self;
    network.reads.router.layers =
        reinterpret_cast<const core::LayerPlace*>(memory.get() + places_at.count);
    network.reads.dst_base = reinterpret_cast<const std::uint64_t*>(memory.get() + bases_at.count);
    network.reads.reads_per_layer = setup.shape.per_layer();
    network.tickets =
        reinterpret_cast<core::UnitTicket<ncclGinRequest_t>*>(memory.get() + tickets_at.count);
    network.error = errors->sink();
    return {};
  }

  [[nodiscard]] Result<void> make_events() {
    for (OwnedEvent* event : {&fork, &join, &issued}) {
      auto made = make_event();
      if (!made) return tl::unexpected(made.error());
      *event = std::move(*made);
    }
    auto made = make_stream();
    if (!made) return tl::unexpected(made.error());
    side = std::move(*made);
    return {};
  }

  std::vector<core::LayerPlace> places;
  std::vector<Gather> gathers;
  NetworkFetchArgs network;
  DeviceBytes memory;
  OwnedStream side;
  OwnedEvent fork, join, issued;
  cudaStream_t issued_on = nullptr;
  std::uint64_t cycles_per_us = 1;
};

StreamFetch::StreamFetch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StreamFetch::StreamFetch(StreamFetch&&) noexcept = default;
StreamFetch& StreamFetch::operator=(StreamFetch&&) noexcept = default;
StreamFetch::~StreamFetch() = default;

Result<StreamFetch> StreamFetch::create(const Communicator& communicator,
                                        const FetchWindows& windows,
                                        const StreamFetchSetup& setup) {
  auto impl = std::make_unique<Impl>(setup);
  if (auto built = impl->build(communicator, windows); !built) {
    return tl::unexpected(built.error());
  }
  return StreamFetch(std::move(impl));
}

Result<void> StreamFetch::issue(const std::int64_t* indices, cudaStream_t stream) {
  return impl_->issue(indices, stream);
}
Result<void> StreamFetch::wait(LayerIndex layer, cudaStream_t stream, Nanos limit) {
  return impl_->wait(layer, stream, limit);
}
Result<void> StreamFetch::check() {
  const auto record = impl_->errors->take();
  if (!record) return {};
  return tl::unexpected(kernels::to_error(*record));
}
bool StreamFetch::uses_network() const { return impl_->uses_network; }
Result<core::IssueCounts> StreamFetch::count_posted() const { return impl_->count_posted(); }
std::vector<kernels::FetchPlan> StreamFetch::plans() const { return impl_->plans(); }
const StreamFetchSetup& StreamFetch::setup() const { return impl_->setup; }

}  // namespace engram::nccl
