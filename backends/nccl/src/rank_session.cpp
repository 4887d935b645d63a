#include "rank_session.hpp"

#include "cuda_memory.hpp"

namespace engram::nccl {
namespace {

std::string text_of(const core::RankGrid& grid) {
  return fmt::format("{} NVLink domains of {} ranks ({})", grid.num_rdma, grid.num_nvlink,
                     grid.mode == core::Mode::hybrid ? "hybrid" : "direct");
}

struct Loaded {
  std::shared_ptr<const DriverApi> driver;
  std::shared_ptr<const NcclLibrary> library;
};

Result<Loaded> load(const NcclOptions& options) {
  auto driver = load_driver();
  if (!driver) return tl::unexpected(driver.error());
  auto library = load_nccl(options.library);
  if (!library) return tl::unexpected(library.error());
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  if (options.device < 0 || options.device >= count) {
    return fail(ErrorCode::unsupported, "CUDA device ", options.device, " of ", count,
                ": one GPU a rank is needed");
  }
  return Loaded{*driver, *library};
}

}  // namespace

Result<std::unique_ptr<RankSession>> RankSession::create(rendezvous::Rendezvous& ranks,
                                                         const NcclOptions& options) {
  auto loaded = ranks.agree_on(load(options));
  if (!loaded) return tl::unexpected(loaded.error());
  CommunicatorOptions how;
  how.device = options.device;
  how.device_options = options.device_options;
  if (options.grid) how.device_options.mode = options.grid->mode;
  how.settings = options.settings;
  how.call_limit = options.call_limit;
  auto made = options.existing ? Communicator::adopt(loaded->library, ranks, *options.existing, how)
                               : Communicator::create(loaded->library, ranks, how);
  if (!made) return tl::unexpected(made.error());
  std::unique_ptr<RankSession> session(new RankSession);
  session->driver_ = loaded->driver;
  session->transport_options_ = options.transport;
  session->communicator_.emplace(std::move(*made));
  auto capabilities = ranks.agree_on(capabilities_of(*session->communicator_));
  if (!capabilities) return tl::unexpected(capabilities.error());
  session->capabilities_ = *capabilities;
  const core::RankGrid& grid = session->grid();
  if (options.grid &&
      (options.grid->num_rdma != grid.num_rdma || options.grid->num_nvlink != grid.num_nvlink)) {
    return fail(ErrorCode::invalid_argument, "asked for ", text_of(*options.grid),
                ", but NCCL finds ", text_of(grid));
  }
  return session;
}

RankSession::~RankSession() {
  if (broken_) return;  // the communicator aborts itself
  if (auto closed = communicator_->close(); !closed) {
    communicator_->options().warn(closed.error().message);
  }
}

CommunicatorFacts RankSession::facts() const {
  const ncclCommProperties_t& properties = communicator_->properties();
  return {facts_of(properties), grid().num_nvlink, properties.multimemSupport,
          properties.hostRmaSupport};
}

Result<core::BackendStats> RankSession::run(const core::RankMain& main) {
  if (broken_) return within(*broken_, "after a run that broke the communicator");
  if (auto set = check_cuda(cudaSetDevice(communicator_->options().device), "device"); !set) {
    return tl::unexpected(set.error());
  }
  // Destroyed last: its memory lies under the communicator's windows.
  NcclTransport transport(driver_, *communicator_, capabilities_, transport_options_);
  const Result<void> mine = main(transport);
  const Result<void> all = communicator_->ranks().agree(mine);
  const Result<void> released = communicator_->release();
  if (!released) broken_ = released.error();
  if (!all) {
    // Alone, no other rank has put the name in front.
    return communicator_->ranks().num_ranks() == 1 ? within(all.error(), "rank 0")
                                                   : tl::unexpected<Error>(all.error());
  }
  if (!released) return tl::unexpected(released.error());
  core::BackendStats stats;
  stats.requests = transport.requests();
  stats.completions = transport.completions();
  stats.doorbells = transport.doorbells();
  stats.queues = communicator_->plan().has_network()
                     ? std::uint64_t{communicator_->plan().num_qps} * grid().num_ranks()
                     : 0;
  stats.warnings = communicator_->plan().notes;
  return stats;
}

}  // namespace engram::nccl
