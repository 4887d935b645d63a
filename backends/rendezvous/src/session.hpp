// The server's state: who has joined, which operation runs, and whether the session is over.
// Everything here runs on the server's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connection.hpp"
#include "server.hpp"
#include "wire.hpp"

namespace engram::rendezvous {

class Server::Session : public std::enable_shared_from_this<Server::Session> {
 public:
  Session(const Identity& identity, const Options& options);

  /// Errors: io.
  [[nodiscard]] Result<std::uint16_t> listen();
  void run();
  /// From any thread: flush, wait for the ranks to go, stop.
  void request_stop();

 private:
  struct Operation {
    FrameKind kind = FrameKind::barrier;
    std::map<Rank, Body> entered;  ///< bodies by rank
  };

  void accept_next();
  void on_frame(const std::shared_ptr<Connection>& from, const Header& header, Body body);
  void on_closed(const std::shared_ptr<Connection>& from, const Error& why);

  void on_hello(const std::shared_ptr<Connection>& from, std::span<const std::byte> body);
  [[nodiscard]] Result<void> check(const Hello& hello) const;
  void on_operation(Rank rank, const Header& header, Body body);
  void finish_operation();
  void fail_operation(const Error& error);
  void send_all(FrameKind kind, std::span<const std::byte> body);
  /// Ends the session: every rank, also one that joins later, learns why.
  void poison(Error error);
  void stop_if_done();

  [[nodiscard]] std::string describe_missing(const std::map<Rank, bool>& seen) const;
  [[nodiscard]] std::uint32_t num_joined() const;

  Identity identity_;
  Options options_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer start_timer_{io_}, operation_timer_{io_}, stop_timer_{io_};
  std::vector<std::shared_ptr<Connection>> members_;  ///< by rank; null until joined
  std::vector<bool> left_;                            ///< by rank: said goodbye
  std::vector<std::weak_ptr<Connection>> strangers_;  ///< connected, no accepted hello yet
  std::optional<std::string> last_refusal_;
  std::uint64_t sequence_ = 0;  ///< of the running operation
  Operation operation_;
  std::optional<Error> failure_;
  bool stopping_ = false;
};

}  // namespace engram::rendezvous
