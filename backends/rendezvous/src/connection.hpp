// One socket of the server: reads frames, queues writes. Runs on the server's thread.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "wire.hpp"

namespace engram::rendezvous {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Handlers {
    std::function<void(const std::shared_ptr<Connection>&, const Header&, Body)> frame;
    std::function<void(const std::shared_ptr<Connection>&, const Error&)> closed;  ///< once
  };

  Connection(boost::asio::ip::tcp::socket socket, Handlers handlers)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        handlers_(std::move(handlers)) {}

  /// Reads frames until the peer closes or sends what is no frame. Until `trust` a frame must come
  /// within `limit` and hold at most kMaxHelloBytes.
  void start(Nanos limit);
  void trust(Rank rank, Bytes max_body);
  void send(FrameKind kind, std::uint64_t sequence, std::span<const std::byte> body);
  /// Closes once the queue is written.
  void close_after_sending();
  /// Tells the peer that nothing more comes; still reads.
  void shutdown_send();
  void close();
  /// Closes and reports `why`, once.
  void closed(const Error& why);

  [[nodiscard]] std::optional<Rank> rank() const { return rank_; }
  [[nodiscard]] bool idle() const { return queue_.empty(); }
  [[nodiscard]] bool open() const { return socket_.is_open(); }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  void read_header();
  void read_body(const Header& header);
  void write_next();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  Handlers handlers_;
  std::optional<Rank> rank_;
  Bytes max_body_ = kMaxHelloBytes;
  std::array<std::byte, kHeaderBytes> header_{};
  Body body_;
  std::deque<Body> queue_;
  std::string address_;
  bool close_when_idle_ = false, reported_ = false;
};

}  // namespace engram::rendezvous
