// What rank 0 runs in a thread of its own: collects each operation's frames and answers them all.
#pragma once

#include <memory>
#include <thread>

#include "engram/core/result.hpp"
#include "engram/rendezvous/identity.hpp"
#include "engram/rendezvous/listener.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::rendezvous {

class Server {
 public:
  /// Takes the identity's listening socket, or listens at its address; then serves at once.
  /// Errors: io, naming address and cause.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(const Identity& identity,
                                                             const Options& options);
  ~Server();  ///< sends what is queued, waits a moment for the ranks to leave, ends the thread

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  class Session;
  Server() = default;
  std::uint16_t port_ = 0;
  std::shared_ptr<Session> session_;
  std::thread thread_;
};

}  // namespace engram::rendezvous
