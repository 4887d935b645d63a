// Runs one function on every rank of a job, each rank a thread with its own sockets.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engram/rendezvous/listener.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::rendezvous::test {

inline Identity identity_of(std::uint32_t rank, std::uint32_t num_ranks, const Listener& listener) {
  Identity identity;
  identity.rank = Rank{rank};
  identity.num_ranks = num_ranks;
  identity.port = listener.port;
  identity.job_id = "test-job";
  identity.secret = "a secret";
  return identity;
}

/// Options for tests in which something goes wrong: short limits.
inline Options impatient() {
  Options options;
  options.start_limit = std::chrono::milliseconds(600);
  options.operation_limit = std::chrono::milliseconds(600);
  return options;
}

/// Collects what the ranks saw, whichever thread they run on.
template <class T>
struct Gathered {
  std::mutex mutex;
  std::map<std::uint32_t, T> by_rank;
  void set(Rank rank, T value) {
    const std::lock_guard lock(mutex);
    by_rank.insert_or_assign(rank.value, std::move(value));
  }
};

/// Calls `body(rank, joined)` on `num_ranks` threads; `change` may alter an identity before it
/// joins.
inline void run_team(std::uint32_t num_ranks, const Options& options,
                     const std::function<void(Rank, Result<Rendezvous>)>& body,
                     const std::function<void(Identity&)>& change = {},
                     const std::vector<std::uint32_t>& absent = {}) {
  auto listener = listen_on_loopback();
  require(listener.has_value(), "a loopback listener");
  const int fd = listener->socket.release();  // rank 0's server takes it
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    if (std::find(absent.begin(), absent.end(), r) != absent.end()) continue;
    threads.emplace_back([&, r] {
      Identity identity = identity_of(r, num_ranks, *listener);
      if (r == 0) identity.listen_fd = fd;
      if (change) change(identity);
      body(Rank{r}, Rendezvous::join(identity, options));
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace engram::rendezvous::test
