#include "engram/nccl/nccl_backend.hpp"

#include <functional>
#include <thread>

#include "engram/rendezvous/listener.hpp"
#include "engram/rendezvous/secret.hpp"
#include "rank_session.hpp"

namespace engram::nccl {
namespace {

/// Runs `body(rank)` on a thread a rank; the only rank of a process stays on the caller's.
void on_each_rank(std::uint32_t num_ranks, const std::function<void(std::uint32_t)>& body) {
  if (num_ranks == 1) return body(0);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < num_ranks; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

class NcclBackend final : public core::Backend {
 public:
  /// `owned`: the rendezvous of each session, when no one else keeps them.
  NcclBackend(std::vector<std::unique_ptr<rendezvous::Rendezvous>> owned,
              std::vector<std::unique_ptr<RankSession>> sessions)
      : owned_(std::move(owned)), sessions_(std::move(sessions)) {}
  ~NcclBackend() override {
    on_each_rank(num_sessions(), [this](std::uint32_t r) { sessions_[r].reset(); });
  }

  [[nodiscard]] const core::Capabilities& capabilities() const override {
    return sessions_[0]->capabilities();
  }
  [[nodiscard]] const core::RankGrid& grid() const override { return sessions_[0]->grid(); }
  [[nodiscard]] CommunicatorFacts facts() const { return sessions_[0]->facts(); }

  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main) override {
    std::vector<Result<core::BackendStats>> results(num_sessions());
    on_each_rank(num_sessions(), [&](std::uint32_t r) { results[r] = sessions_[r]->run(main); });
    Result<core::BackendStats> all = std::move(results[0]);
    for (std::size_t r = 1; r < results.size() && all; ++r) {
      if (!results[r]) return results[r];
      all->requests += results[r]->requests;
      all->completions += results[r]->completions;
      all->doorbells += results[r]->doorbells;
      all->queues += results[r]->queues;
    }
    return all;
  }

 private:
  [[nodiscard]] std::uint32_t num_sessions() const {
    return static_cast<std::uint32_t>(sessions_.size());
  }
  std::vector<std::unique_ptr<rendezvous::Rendezvous>> owned_;
  std::vector<std::unique_ptr<RankSession>> sessions_;
};

Result<std::unique_ptr<NcclBackend>> make_local(const std::vector<int>& devices,
                                                const NcclOptions& options);

}  // namespace

Result<std::unique_ptr<core::Backend>> make_nccl(rendezvous::Rendezvous& ranks,
                                                 const NcclOptions& options) {
  auto session = RankSession::create(ranks, options);
  if (!session) return tl::unexpected(session.error());
  std::vector<std::unique_ptr<RankSession>> sessions;
  sessions.push_back(std::move(*session));
  return std::make_unique<NcclBackend>(std::vector<std::unique_ptr<rendezvous::Rendezvous>>{},
                                       std::move(sessions));
}

Result<std::unique_ptr<core::Backend>> make_nccl_local(const std::vector<int>& devices,
                                                       const NcclOptions& options) {
  auto made = make_local(devices, options);
  if (!made) return tl::unexpected(made.error());
  return std::move(*made);
}

Result<CommunicatorFacts> probe_communicator(const std::vector<int>& devices,
                                             const NcclOptions& options) {
  const auto made = make_local(devices, options);
  if (!made) return tl::unexpected(made.error());
  return (*made)->facts();
}

namespace {

Result<std::unique_ptr<NcclBackend>> make_local(const std::vector<int>& devices,
                                                const NcclOptions& options) {
  const auto num_ranks = static_cast<std::uint32_t>(devices.size());
  if (num_ranks == 0) return fail(ErrorCode::invalid_argument, "a job of no ranks");
  auto listener = rendezvous::listen_on_loopback();
  if (!listener) return tl::unexpected(listener.error());
  const int socket = listener->socket.release();  // rank 0's server takes it
  const std::string secret = rendezvous::random_secret();
  std::vector<std::unique_ptr<rendezvous::Rendezvous>> ranks(num_ranks);
  std::vector<std::unique_ptr<RankSession>> sessions(num_ranks);
  std::vector<Result<void>> results(num_ranks);
  on_each_rank(num_ranks, [&](std::uint32_t r) {
    rendezvous::Identity identity;
    identity.rank = Rank{r};
    identity.num_ranks = identity.num_local_ranks = num_ranks;
    identity.local_rank = r;
    identity.port = listener->port;
    identity.job_id = "threads of one process";
    identity.secret = secret;
    if (r == 0) identity.listen_fd = socket;
    auto joined = rendezvous::Rendezvous::join(identity, {});
    if (!joined) {
      results[r] = tl::unexpected(joined.error());
      return;
    }
    ranks[r] = std::make_unique<rendezvous::Rendezvous>(std::move(*joined));
    NcclOptions mine = options;
    mine.device = devices[r];
    auto session = RankSession::create(*ranks[r], mine);
    if (session) {
      sessions[r] = std::move(*session);
    } else {
      results[r] = tl::unexpected(session.error());
    }
  });
  for (const Result<void>& result : results) {
    if (!result) return tl::unexpected(result.error());
  }
  return std::make_unique<NcclBackend>(std::move(ranks), std::move(sessions));
}

}  // namespace
}  // namespace engram::nccl
