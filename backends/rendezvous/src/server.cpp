#include "server.hpp"

#include <utility>

#include "session.hpp"

namespace engram::rendezvous {

Result<std::unique_ptr<Server>> Server::start(const Identity& identity, const Options& options) {
  auto session = std::make_shared<Session>(identity, options);
  const auto port = session->listen();
  if (!port) return tl::unexpected<Error>(port.error());
  std::unique_ptr<Server> server(new Server());
  server->port_ = *port;
  server->session_ = session;
  server->thread_ = std::thread([session] { session->run(); });
  return server;
}

Server::~Server() {
  if (session_) session_->request_stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace engram::rendezvous
