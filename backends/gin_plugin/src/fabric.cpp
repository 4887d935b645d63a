#include "engram/gin_plugin/fabric.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "worker.hpp"

namespace engram::gin_plugin {
namespace {

constexpr std::size_t kRmaQueue = 1024;  ///< operations; more would leave the caches
constexpr auto kCloseLimit = std::chrono::seconds(2);

/// What ranks must agree on for a set of contexts.
struct SetOffer {
  std::uint32_t instance = 0;
  std::uint32_t num_contexts = 0;
  std::uint32_t num_signals = 0;
  std::uint32_t num_counters = 0;
  friend bool operator==(const SetOffer&, const SetOffer&) = default;
};

class FabricImpl final : public Fabric {
 public:
  FabricImpl(std::unique_ptr<Device> device, const Settings& settings, Say say)
      : settings_(settings), say_(std::move(say)), device_(std::move(device)) {}
  ~FabricImpl() override;

  Result<void> set_up(Listener& listener, std::span<const std::byte* const> handles, Rank self);

  Result<Region*> register_region(std::byte* data, Bytes size, bool host,
                                  std::uint64_t flags) override {
    return regions_->add(data, size, host, flags);
  }
  void deregister_region(Region* region) override;
  Result<ContextSet*> create_gpi(const ContextConfig& config) override;
  Result<ContextSet*> create_rma(int num_contexts) override;
  void destroy(ContextSet* set) override;
  Result<RmaRequest*> post(ContextSet* set, int context, const Operation& operation,
                           Region* signal_region, std::uint64_t signal_offset) override;
  std::optional<Error> error() const override {
    const std::lock_guard lock(error_mutex_);
    return error_;
  }
  Device& device() override { return *device_; }

 private:
  void fail_all(const Error& error);
  Result<void> start_workers(int num_contexts);
  Result<void> share_memory(ContextSet& set, const SetOffer& mine);
  Result<void> make_rings(ContextSet& set, std::uint32_t depth);
  bool apply(const RemoteSignal& signal);
  void run_set(std::unique_ptr<ContextSet> set);

  Settings settings_;
  Say say_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<Regions> regions_;
  std::unique_ptr<Remote> remote_;
  std::unique_ptr<WorkerShared> shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex sets_mutex_;
  std::vector<std::unique_ptr<ContextSet>> sets_;
  std::uint32_t next_instance_ = 1;
  std::atomic<bool> closing_{false};
  mutable std::mutex error_mutex_;
  std::optional<Error> error_;
};

Result<void> FabricImpl::set_up(Listener& listener, std::span<const std::byte* const> handles,
                                Rank self) {
  std::vector<Endpoint> endpoints(handles.size());
  for (std::size_t r = 0; r < handles.size(); ++r) {
    std::memcpy(&endpoints[r], handles[r], sizeof(Endpoint));
  }
  auto mesh = Mesh::connect(listener, endpoints, self, settings_, [this](const std::string& text) {
    say_(true, fmt::format("still waiting for ranks: {}", text));
  });
  if (!mesh) return tl::unexpected(mesh.error());
  mesh_ = std::move(*mesh);
  regions_ = std::make_unique<Regions>(*device_, *mesh_, settings_);
  shared_.reset(new WorkerShared{*device_,
                                 *regions_,
                                 self,
                                 static_cast<std::uint32_t>(handles.size()),
                                 settings_.spin_time,
                                 nullptr,
                                 {},
                                 {}});
  shared_->fail = [this](const Error& error) { fail_all(error); };
  // From here on other threads may report errors, which needs all of the above.
  mesh_->watch([this](Rank, const Error& error) {
    if (!closing_) fail_all(error);
  });
  auto remote = make_remote(
      *device_, *mesh_, *regions_, [this](const RemoteSignal& s) { return apply(s); },
      [this](const Error& error) {
        if (!closing_) fail_all(error);
      });
  if (!remote) return tl::unexpected(remote.error());
  remote_ = std::move(*remote);
  shared_->remote = remote_.get();
  return {};
}

FabricImpl::~FabricImpl() {
  closing_ = true;
  while (!sets_.empty()) destroy(sets_.back().get());
  workers_.clear();
  if (mesh_) mesh_->say_goodbye();
  remote_.reset();
  if (mesh_) mesh_->stop();
}

void FabricImpl::fail_all(const Error& error) {
  {
    const std::lock_guard lock(error_mutex_);
    if (error_) return;
    error_ = error;
  }
  shared_->failed = true;
  say_(true, fmt::format("{}; outstanding and later operations end without data", error.message));
  mesh_->give_up(error.message);
  // The peers' kernels wait for this rank as well.
  if (error.code != ErrorCode::peer_lost) mesh_->say_failed(error.message);
}

void FabricImpl::deregister_region(Region* region) {
  regions_->retire(region);
  for (auto& worker : workers_) worker->quiesce(kCloseLimit);
  remote_->quiesce(kCloseLimit);
  regions_->erase(region);
}

/// More workers than contexts would only spin.
Result<void> FabricImpl::start_workers(int num_contexts) {
  // Where no memory of a peer is mapped workers hand all on to one thread; their streams, of which
  // CUDA lays several on one of its few queues, are better not made.
  constexpr unsigned kHandingOn = 2;
  unsigned wanted = settings_.workers;
  if (wanted == 0) {
    unsigned neighbours = 0;
    for (std::uint32_t r = 0; r < mesh_->num_ranks(); ++r) {
      neighbours += mesh_->same_host(Rank{r}) ? 1 : 0;
    }
    wanted = std::clamp(std::thread::hardware_concurrency() / (2 * neighbours), 1u, 8u);
  }
  bool any_mapped = mesh_->num_ranks() == 1;
  for (std::uint32_t r = 0; r < mesh_->num_ranks(); ++r) {
    any_mapped |= Rank{r} != mesh_->self() && mesh_->same_host(Rank{r});
  }
  if (!any_mapped) wanted = std::min(wanted, kHandingOn);
  wanted = std::min(wanted, static_cast<unsigned>(std::max(num_contexts, 1)));
  while (workers_.size() < wanted) {
    auto engine = device_->make_engine(EngineUse::peers);
    if (!engine) return tl::unexpected(engine.error());
    const bool stores_signals = workers_.empty();
    workers_.push_back(std::make_unique<Worker>(*shared_, std::move(*engine), stores_signals));
  }
  return {};
}

bool FabricImpl::apply(const RemoteSignal& signal) {
  const std::lock_guard lock(sets_mutex_);
  for (auto& set : sets_) {
    if (set->instance != signal.instance) continue;
    if (signal.context >= set->contexts.size() || signal.signal >= set->num_signals) return false;
    abi::Signal* own = set->contexts[signal.context]->signals[mesh_->self().value];
    std::atomic_ref(own[signal.signal].value).fetch_add(signal.value, std::memory_order_acq_rel);
    return true;
  }
  return false;
}

/// Counters and signals of all contexts: own memory, and the peers' of this host.
Result<void> FabricImpl::share_memory(ContextSet& set, const SetOffer& mine) {
  const std::uint64_t words = set.num_counters + set.num_signals;
  const std::uint64_t stride = words * sizeof(abi::Counter);
  const Bytes size =
      align_up(Bytes{std::max<std::uint64_t>(mine.num_contexts * stride, 1)}, Bytes{4096});
  auto own = SharedMemory::create(size);
  if (!own) return tl::unexpected(own.error());
  set.own = std::move(*own);
  auto unpin = device_->pin(set.own.bytes());
  if (!unpin) return tl::unexpected(unpin.error());
  set.unpin = std::move(*unpin);

  const int fd = set.own.fd();
  auto offers = mesh_->exchange(std::as_bytes(std::span(&mine, 1)), std::span(&fd, 1));
  if (!offers) return tl::unexpected(offers.error());
  set.peers.resize(offers->size());
  for (std::uint32_t r = 0; r < offers->size(); ++r) {
    Offer& offer = (*offers)[r];
    SetOffer theirs;
    if (offer.payload.size() != sizeof theirs) {
      return fail(ErrorCode::invalid_argument, "rank ", r, " is not making contexts");
    }
    std::memcpy(&theirs, offer.payload.data(), sizeof theirs);
    if (theirs != mine) {
      return fail(ErrorCode::invalid_argument, "rank ", r, " makes ", theirs.num_contexts,
                  " contexts with ", theirs.num_signals, " signals, this rank ", mine.num_contexts,
                  " with ", mine.num_signals);
    }
    if (offer.files.empty()) continue;
    auto there = SharedMemory::map(std::move(offer.files[0]), size);
    if (!there) return within(there.error(), "counters of rank ", r);
    set.peers[r] = std::move(*there);
  }
  for (std::uint32_t c = 0; c < mine.num_contexts; ++c) {
    auto context = std::make_unique<ContextState>();
    context->index = c;
    context->set = &set;
    context->num_signals = set.num_signals;
    context->counts.resize(set.num_counters);
    const std::uint64_t signals_at = c * stride + set.num_counters * sizeof(abi::Counter);
    context->counters = reinterpret_cast<abi::Counter*>(set.own.bytes().data() + c * stride);
    for (std::uint32_t r = 0; r < set.peers.size(); ++r) {
      auto memory = Rank{r} == mesh_->self() ? set.own.bytes() : set.peers[r].bytes();
      context->signals.push_back(
          memory.empty() ? nullptr : reinterpret_cast<abi::Signal*>(memory.data() + signals_at));
    }
    set.contexts.push_back(std::move(context));
  }
  return {};
}

Result<void> FabricImpl::make_rings(ContextSet& set, std::uint32_t depth) {
  const std::size_t contexts = set.contexts.size();
  auto rings = device_->allocate_pinned(Bytes{contexts * depth * 64});
  if (!rings) return tl::unexpected(rings.error());
  set.rings = std::move(*rings);
  std::memset(set.rings.get(), RingReader::kEmptyByte, contexts * depth * 64);
  auto consumed = device_->allocate_pinned(Bytes{contexts * sizeof(abi::ConsumerIndex)});
  if (!consumed) return tl::unexpected(consumed.error());
  set.consumed = std::move(*consumed);

  // Device code steps from channel to channel over the flush tickets that follow each.
  const std::size_t stride = sizeof(abi::Channel) + mesh_->num_ranks() * sizeof(std::uint64_t);
  std::vector<std::byte> image(contexts * stride);
  for (std::size_t c = 0; c < contexts; ++c) {
    ContextState& context = *set.contexts[c];
    std::byte* ring = set.rings.get() + c * depth * 64;
    context.ring = RingReader(reinterpret_cast<const std::uint64_t*>(ring),
                              static_cast<std::uint32_t>(std::countr_zero(depth)));
    context.consumed = reinterpret_cast<abi::ConsumerIndex*>(set.consumed.get()) + c;
    abi::Channel channel{};
    channel.counters = context.counters;
    channel.signals = context.signals[mesh_->self().value];
    channel.ring = reinterpret_cast<std::uintptr_t*>(ring);
    channel.consumed = context.consumed;
    channel.log_depth = static_cast<std::uint32_t>(std::countr_zero(depth));
    std::memcpy(image.data() + c * stride, &channel, sizeof channel);
  }
  auto channels = device_->allocate(Bytes{image.size()});
  if (!channels) return tl::unexpected(channels.error());
  set.channels = std::move(*channels);
  auto ok = device_->upload(set.channels.get(), image);
  if (!ok) return ok;
  set.handle = {abi::kDeviceGinGpi, abi::kGpiVersion, set.channels.get(), image.size(), 0};
  return {};
}

void FabricImpl::run_set(std::unique_ptr<ContextSet> set) {
  for (auto& context : set->contexts) {
    context->worker = context->index % workers_.size();
    workers_[context->worker]->add(context.get());
  }
  const std::lock_guard lock(sets_mutex_);
  sets_.push_back(std::move(set));
}

Result<ContextSet*> FabricImpl::create_gpi(const ContextConfig& config) {
  if (config.num_contexts < 1 || config.num_signals < 0 || config.num_signals > 65536 ||
      config.num_counters < 0 || config.num_counters + mesh_->num_ranks() > 32767) {
    return fail(ErrorCode::invalid_argument, config.num_contexts, " contexts with ",
                config.num_signals, " signals and ", config.num_counters,
                " counters; descriptors hold 16-bit numbers");
  }
  auto set = std::make_unique<ContextSet>();
  set->instance = next_instance_++;
  set->num_counters = static_cast<std::uint32_t>(config.num_counters + mesh_->num_ranks());
  set->num_signals = static_cast<std::uint32_t>(config.num_signals);
  const SetOffer mine{set->instance, static_cast<std::uint32_t>(config.num_contexts),
                      set->num_signals, set->num_counters};
  auto ok = start_workers(config.num_contexts);
  if (ok) ok = share_memory(*set, mine);
  constexpr std::uint32_t kDeepest = 1 << 16;
  const auto asked = static_cast<std::uint32_t>(std::max(config.queue_depth, 1));
  const std::uint32_t depth =
      std::bit_ceil(std::max(settings_.ring_depth, std::min(asked, kDeepest)));
  if (ok) ok = make_rings(*set, depth);
  // Nobody signals a context before all ranks have it.
  if (ok) {
    auto all = mesh_->exchange({}, {});
    if (!all) ok = tl::unexpected(all.error());
  }
  if (!ok) {
    if (set->unpin) set->unpin();
    return tl::unexpected(ok.error());
  }
  ContextSet* raw = set.get();
  run_set(std::move(set));
  return raw;
}

Result<ContextSet*> FabricImpl::create_rma(int num_contexts) {
  // One thread of NCCL's feeds them all: by fewer hands it comes in larger batches.
  constexpr int kRmaWorkers = 2;
  auto ok = start_workers(std::min(num_contexts, kRmaWorkers));
  if (!ok) return tl::unexpected(ok.error());
  auto set = std::make_unique<ContextSet>();
  set->instance = next_instance_++;
  for (int c = 0; c < num_contexts; ++c) {
    auto context = std::make_unique<ContextState>();
    context->index = static_cast<std::uint32_t>(c);
    context->queue = std::make_unique<RmaQueue>(kRmaQueue);
    context->set = set.get();
    set->contexts.push_back(std::move(context));
  }
  ContextSet* raw = set.get();
  run_set(std::move(set));
  return raw;
}

Result<RmaRequest*> FabricImpl::post(ContextSet* set, int context, const Operation& operation,
                                     Region* signal_region, std::uint64_t signal_offset) {
  if (context < 0 || static_cast<std::size_t>(context) >= set->contexts.size()) {
    return fail(ErrorCode::out_of_range, "context ", context, " of ", set->contexts.size());
  }
  ContextState& state = *set->contexts[static_cast<std::size_t>(context)];
  RmaRequest* request = set->requests.take();
  request->done_upto = &state.rma_done;
  const RmaOperation rma{operation, signal_region, signal_offset};
  while ((request->number = state.queue->push(rma)) == 0) std::this_thread::yield();
  return request;
}

void FabricImpl::destroy(ContextSet* set) {
  for (auto& context : set->contexts) {
    workers_[context->worker]->remove(context.get(), kCloseLimit);
  }
  std::unique_ptr<ContextSet> gone;
  {
    const std::lock_guard lock(sets_mutex_);
    auto at = std::find_if(sets_.begin(), sets_.end(), [&](auto& s) { return s.get() == set; });
    require(at != sets_.end(), "a context set is destroyed once");
    gone = std::move(*at);
    sets_.erase(at);
  }
  if (gone->unpin) gone->unpin();
}

}  // namespace

void ListenerDelete::operator()(Listener* listener) const { delete listener; }

Result<ListenerPtr> open_listener(const Settings& settings, std::span<std::byte> handle) {
  auto listener = Listener::open(settings);
  if (!listener) return tl::unexpected(listener.error());
  static_assert(sizeof(Endpoint) <= abi::kHandleBytes);
  std::memset(handle.data(), 0, handle.size());
  std::memcpy(handle.data(), &listener->endpoint(), sizeof(Endpoint));
  return ListenerPtr(new Listener(std::move(*listener)));
}

Result<std::unique_ptr<Fabric>> Fabric::connect(std::unique_ptr<Device> device,
                                                const Settings& settings, Listener& listener,
                                                std::span<const std::byte* const> handles,
                                                Rank self, Say say) {
  auto fabric = std::make_unique<FabricImpl>(std::move(device), settings, std::move(say));
  auto ok = fabric->set_up(listener, handles, self);
  if (!ok) return tl::unexpected(ok.error());
  return fabric;
}

abi::DeviceHandle* handle_of(ContextSet* set) { return &set->handle; }
std::uint16_t id_of(const Region* region) { return region->id; }
bool is_plain_host(const Region* region) { return region->plain_host; }
std::byte* data_of(const Region* region) { return region->data; }
bool is_done(const RmaRequest* request) {
  return request->done_upto->load(std::memory_order_acquire) >= request->number;
}
void give_back(RmaRequest* request) { request->pool->give(request); }

}  // namespace engram::gin_plugin
