#include "engram/nccl/communicator.hpp"

// What NCCL's own initialiser leaves out is meant to be zero.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "guarded_call.hpp"

namespace engram::nccl {
namespace {

using rendezvous::Rendezvous;

/// Strict ordering: rows written ahead of a signal are seen before it. Symmetric: the offset of a
/// byte here is right at every peer.
constexpr int kWindowFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;

Result<void> use_device(int device) {
  const cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // else the next kernel launch would report this one's error
  return fail(ErrorCode::unsupported, "CUDA device ", device, ": ", cudaGetErrorString(error));
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(std::shared_ptr<const NcclLibrary> nccl, Rendezvous& team, const CommunicatorOptions& how)
      : library(std::move(nccl)), ranks(&team), options(how) {
    if (!options.warn) {
      options.warn = [](std::string_view text) {
        std::fprintf(stderr, "engram: %.*s\n", static_cast<int>(text.size()), text.data());
      };
    }
  }

  ~Impl() {
    if (comm == nullptr || closed) return;
    options.warn(
        fmt::format("rank {}: communicator destroyed without the final barrier ({} windows, device "
                    "communicator {}); peers may still reach into its memory",
                    ranks->rank().value, windows.size(), device_open ? "open" : "closed"));
    abort();
  }

  /// Once only; from any thread, also while another one is inside a call on this communicator.
  void abort() {
    if (owned && comm != nullptr) library->comm_abort(std::exchange(comm, nullptr));
  }

  [[nodiscard]] Result<void> init() {
    ncclUniqueId id{};
    Result<void> ready = use_device(options.device);
    if (ready && ranks->rank() == Rank{0}) {
      ready = library->check(library->get_unique_id(&id), nullptr, "ncclGetUniqueId");
    }
    if (const auto all = ranks->agree(ready); !all) return all;
    const auto root = ranks->broadcast(Rank{0}, std::as_bytes(std::span(&id, 1)));
    if (!root) return tl::unexpected<Error>(root.error());
    require(root->size() == sizeof(id), "rank 0 sent a whole unique id");
    std::memcpy(&id, root->data(), sizeof(id));

    auto result = std::make_shared<ncclComm_t>(nullptr);
    const auto done = run_guarded(
        *ranks, {},
        {"ncclCommInitRank",
         options.device,
         options.call_limit,
         [nccl = library, result, id, n = static_cast<int>(ranks->num_ranks()),
          r = static_cast<int>(ranks->rank().value),
          traffic_class = options.device_options.traffic_class]() -> Result<void> {
           ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
           config.trafficClass = traffic_class;
           return nccl->check(nccl->comm_init_rank_config(result.get(), n, id, r, &config), nullptr,
                              "ncclCommInitRank of rank ", r, " of ", n);
         },
         {}});
    if (done) {
      comm = *result;
      owned = true;
    }
    return done;
  }

  [[nodiscard]] Result<void> check_adopted() const {
    int num_ranks = 0, rank = 0, cuda_device = 0;
    for (const ncclResult_t result :
         {library->comm_count(comm, &num_ranks), library->comm_user_rank(comm, &rank),
          library->comm_cu_device(comm, &cuda_device)}) {
      if (const auto ok = library->check(result, comm, "the adopted communicator"); !ok) return ok;
    }
    if (num_ranks != static_cast<int>(ranks->num_ranks()) ||
        rank != static_cast<int>(ranks->rank().value) || cuda_device != options.device) {
      return fail(ErrorCode::invalid_argument, "the adopted communicator is rank ", rank, " of ",
                  num_ranks, " on device ", cuda_device, ", the job is rank ", ranks->rank().value,
                  " of ", ranks->num_ranks(), " on device ", options.device);
    }
    return {};
  }

  [[nodiscard]] Result<void> query() {
    properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    if (const auto ok = library->check(library->comm_query_properties(comm, &properties), comm,
                                       "ncclCommQueryProperties");
        !ok) {
      return ok;
    }
    auto planned = plan_device(facts_of(properties), options.device_options);
    if (!planned) return tl::unexpected<Error>(planned.error());
    plan = std::move(*planned);
    lsa = library->team_lsa(comm);
    if (lsa.stride != 1 || static_cast<std::uint32_t>(lsa.nRanks) != plan.grid.num_nvlink ||
        static_cast<std::uint32_t>(lsa.rank) != plan.grid.nvlink_index(ranks->rank())) {
      return fail(ErrorCode::unsupported, "NCCL places rank ", ranks->rank().value, " at ",
                  lsa.rank, " of ", lsa.nRanks, " (stride ", lsa.stride,
                  ") in its NVLink domain; ranks of a domain must be numbered one after another, ",
                  plan.grid.num_nvlink, " a domain");
    }
    return {};
  }

  [[nodiscard]] Result<void> check_window(const WindowMemory& memory) const {
    if (memory.has_imported_pieces() && !options.settings.reuse_sysmem_handles) {
      return fail(
          ErrorCode::unsupported, "a hybrid window holds segments of other ranks; NCCL ",
          "would wait for ever while registering it unless NCCL_SYM_REUSE_SYSMEM_HANDLES=1 ",
          "is set for the process");
    }
    bool on_host = false;
    for (const WindowPiece& piece : memory.pieces()) on_host = on_host || piece.on_host;
    // Measured with NCCL 2.32.3: with the variable set, NCCL maps this rank's own segment wherever
    // a peer's belongs. In a hybrid window these are the same memory; in an elastic one every load
    // from a peer's segment would give our bytes, without any error.
    if (memory.shape().kind == core::WindowKind::elastic && lsa.nRanks > 1 &&
        options.settings.reuse_sysmem_handles) {
      return fail(ErrorCode::unsupported, "an elastic window among ", lsa.nRanks,
                  " ranks of an NVLink domain with NCCL_SYM_REUSE_SYSMEM_HANDLES=1: loads from a ",
                  "peer's host segment would give this rank's bytes; unset it, or use hybrid mode");
    }
    if (on_host && !options.settings.elastic_buffer_register) {
      return fail(ErrorCode::unsupported, "a window with host memory needs ",
                  "NCCL_ELASTIC_BUFFER_REGISTER, which is set to 0");
    }
    if (options.settings.window_stride && memory.size() > *options.settings.window_stride) {
      return fail(ErrorCode::unsupported, "a window of ", memory.size().count,
                  " B is larger than NCCL_WIN_STRIDE=", options.settings.window_stride->count,
                  "; set it to at least ", align_up(memory.size(), Bytes{4 * kGiB.count}).count,
                  " (a multiple of 4 GiB)");
    }
    return {};
  }

  [[nodiscard]] Result<const RegisteredWindow*> register_window(const WindowMemory& memory) {
    auto handle = std::make_shared<ncclWindow_t>(nullptr);
    const auto done = run_guarded(
        *ranks, check_window(memory),
        {"ncclCommWindowRegister", options.device, options.call_limit,
         [nccl = library, handle, c = comm, base = memory.base(), size = memory.size().count] {
           return nccl->check(nccl->comm_window_register(c, base, size, handle.get(), kWindowFlags),
                              c, "ncclCommWindowRegister of ", size, " B");
         },
         [this] { abort(); }});
    if (!done) return tl::unexpected<Error>(done.error());
    auto window = std::make_unique<RegisteredWindow>();
    window->handle = *handle;
    window->base = memory.base();
    window->size = memory.size();
    windows.push_back(std::move(window));
    if (const auto all = ranks->agree(find_peers(*windows.back())); !all) {
      return tl::unexpected<Error>(all.error());
    }
    return windows.back().get();
  }

  [[nodiscard]] Result<void> find_peers(RegisteredWindow& window) const {
    if (window.handle == nullptr) {
      return fail(ErrorCode::unsupported, "NCCL registered no window: NCCL_WIN_ENABLE=0, or no ",
                  "symmetric memory between these GPUs");
    }
    for (int peer = 0; peer < lsa.nRanks; ++peer) {
      void* pointer = nullptr;
      const auto found =
          library->check(library->get_lsa_device_pointer(window.handle, 0, peer, &pointer), comm,
                         "ncclGetLsaDevicePointer of peer ", peer);
      if (!found) return found;
      window.lsa_base.push_back(static_cast<std::byte*>(pointer));
    }
    return {};
  }

  [[nodiscard]] Result<void> open_device() {
    require(!device_open, "the device communicator is opened once");
    // Shared with the call: it must not write into this object after having been given up.
    auto opened = std::make_shared<ncclDevComm_t>();
    const auto done =
        run_guarded(*ranks, {},
                    {"ncclDevCommCreate", options.device, options.call_limit,
                     [nccl = library, opened, c = comm, p = plan]() -> Result<void> {
                       ncclDevCommRequirements_t wants = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
                       wants.ginConnectionType = p.connection;
                       wants.ginContextCount = static_cast<int>(p.num_qps);
                       wants.ginSignalCount = static_cast<int>(p.num_signals);
                       wants.ginCounterCount = static_cast<int>(p.num_counters);
                       wants.ginExclusiveContexts = p.exclusive_qps;
                       wants.ginQueueDepth = static_cast<int>(p.queue_depth);
                       if (p.has_network()) wants.ginTrafficClass = p.traffic_class;
                       wants.ginType = p.gin;
                       return nccl->check(nccl->dev_comm_create(c, &wants, opened.get()), c,
                                          "ncclDevCommCreate: ", p.num_qps, " contexts of depth ",
                                          p.queue_depth, ", ", name_of(p.connection),
                                          " connections by ", name_of(p.gin), ", ", p.num_signals,
                                          " signals, traffic class ", p.traffic_class);
                     },
                     [this] { abort(); }});
    if (!done) return done;
    device = *opened;
    device_open = true;
    return {};
  }

  [[nodiscard]] Result<void> release() {
    Result<void> first;
    const auto keep = [&first](const Result<void>& step) {
      if (!step && first) first = step;
    };
    Result<void> idle = use_device(options.device);
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
      idle = fail(ErrorCode::internal,
                  "the device was not idle at the end: ", cudaGetErrorString(error));
    }
    if (const auto all = ranks->agree(idle); !all) {  // the final barrier
      closed = true;
      abort();
      return within(all.error(), "closing without the final barrier");
    }
    for (auto window = windows.rbegin(); window != windows.rend(); ++window) {
      keep(run_guarded(*ranks, {},
                       {"ncclCommWindowDeregister",
                        options.device,
                        options.call_limit,
                        [nccl = library, c = comm, w = (*window)->handle] {
                          return nccl->check(nccl->comm_window_deregister(c, w), c,
                                             "ncclCommWindowDeregister");
                        },
                        {}}));
    }
    windows.clear();
    if (device_open) {
      auto held = std::make_shared<ncclDevComm_t>(device);
      keep(run_guarded(*ranks, {},
                       {"ncclDevCommDestroy",
                        options.device,
                        options.call_limit,
                        [nccl = library, c = comm, held] {
                          return nccl->check(nccl->dev_comm_destroy(c, held.get()), c,
                                             "ncclDevCommDestroy");
                        },
                        {}}));
      device_open = false;
    }
    return first;
  }

  [[nodiscard]] Result<void> close() {
    if (closed) return {};
    const Result<void> released = release();
    if (closed) return released;  // aborted
    closed = true;
    if (!owned) return released;
    const Result<void> destroyed =
        run_guarded(*ranks, {},
                    {"ncclCommDestroy",
                     options.device,
                     options.call_limit,
                     [nccl = library, c = std::exchange(comm, nullptr)] {
                       return nccl->check(nccl->comm_destroy(c), nullptr, "ncclCommDestroy");
                     },
                     {}});
    return released ? destroyed : released;
  }

  std::shared_ptr<const NcclLibrary> library;
  Rendezvous* ranks;
  CommunicatorOptions options;
  ncclComm_t comm = nullptr;
  bool owned = false, device_open = false, closed = false;
  ncclCommProperties_t properties{};
  DevicePlan plan;
  ncclTeam_t lsa{};
  std::vector<std::unique_ptr<RegisteredWindow>> windows;
  ncclDevComm_t device{};
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Result<Communicator> Communicator::create(std::shared_ptr<const NcclLibrary> library,
                                          Rendezvous& ranks, const CommunicatorOptions& options) {
  auto impl = std::make_unique<Impl>(std::move(library), ranks, options);
  Result<void> done = impl->init();
  if (!done) return tl::unexpected<Error>(done.error());
  done = ranks.agree(impl->query());
  if (done) return Communicator(std::move(impl));
  impl->closed = true;  // nobody can reach into it yet
  impl->abort();
  return tl::unexpected<Error>(done.error());
}

Result<Communicator> Communicator::adopt(std::shared_ptr<const NcclLibrary> library,
                                         Rendezvous& ranks, ncclComm_t comm,
                                         const CommunicatorOptions& options) {
  auto impl = std::make_unique<Impl>(std::move(library), ranks, options);
  impl->comm = comm;
  Result<void> mine = use_device(options.device);
  if (mine) mine = impl->check_adopted();
  if (mine) mine = impl->query();
  const auto all = ranks.agree(mine);
  if (all) return Communicator(std::move(impl));
  impl->closed = true;
  return tl::unexpected<Error>(all.error());
}

const ncclCommProperties_t& Communicator::properties() const { return impl_->properties; }
const DevicePlan& Communicator::plan() const { return impl_->plan; }
const core::RankGrid& Communicator::grid() const { return impl_->plan.grid; }
Rank Communicator::rank() const { return impl_->ranks->rank(); }
const NcclLibrary& Communicator::library() const { return *impl_->library; }
Rendezvous& Communicator::ranks() const { return *impl_->ranks; }
const CommunicatorOptions& Communicator::options() const { return impl_->options; }
ncclComm_t Communicator::handle() const { return impl_->comm; }

Result<const RegisteredWindow*> Communicator::register_window(const WindowMemory& memory) {
  return impl_->register_window(memory);
}
Result<void> Communicator::open_device() { return impl_->open_device(); }
Result<void> Communicator::open_device(const core::QueueShape& queues) {
  if (impl_->plan.has_network()) {
    impl_->plan.num_qps = queues.num_qps;
    if (impl_->plan.gin != NCCL_GIN_TYPE_PROXY) impl_->plan.queue_depth = queues.depth;
  }
  return impl_->open_device();
}
Result<void> Communicator::release() { return impl_->closed ? Result<void>{} : impl_->release(); }
const ncclDevComm_t& Communicator::device() const {
  require(impl_->device_open, "open_device() comes before device()");
  return impl_->device;
}

Result<void> Communicator::async_error() const {
  ncclResult_t state = ncclSuccess;
  const auto asked =
      impl_->library->check(impl_->library->comm_get_async_error(impl_->comm, &state), impl_->comm,
                            "ncclCommGetAsyncError");
  if (!asked || state == ncclSuccess || state == ncclInProgress) return asked;
  return fail(ErrorCode::peer_lost, "rank ", rank().value, ": ",
              impl_->library->explain(state, impl_->comm));
}

Result<void> Communicator::close() { return impl_->close(); }

}  // namespace engram::nccl
