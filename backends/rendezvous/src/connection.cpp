#include "connection.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>

namespace engram::rendezvous {
namespace asio = boost::asio;
using boost::system::error_code;

void Connection::start(Nanos limit) {
  error_code ignored;
  const auto endpoint = socket_.remote_endpoint(ignored);
  address_ = ignored ? "unknown" : endpoint.address().to_string();
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && !self->rank_) {
      self->closed(Error{ErrorCode::timed_out, "no hello from " + self->address_});
    }
  });
  read_header();
}

void Connection::trust(Rank rank, Bytes max_body) {
  rank_ = rank;
  max_body_ = max_body;
  timer_.cancel();
}

void Connection::read_header() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](error_code error, std::size_t) {
                     if (error) return self->closed(Error{ErrorCode::peer_lost, error.message()});
                     const auto header = decode(self->header_, self->max_body_);
                     if (!header) return self->closed(header.error());
                     self->read_body(*header);
                   });
}

void Connection::read_body(const Header& header) {
  body_.resize(header.body_bytes);
  asio::async_read(socket_, asio::buffer(body_),
                   [self = shared_from_this(), header](error_code error, std::size_t) {
                     if (error) return self->closed(Error{ErrorCode::peer_lost, error.message()});
                     self->handlers_.frame(self, header, std::move(self->body_));
                     self->body_.clear();
                     if (self->open() && !self->close_when_idle_) self->read_header();
                   });
}

void Connection::send(FrameKind kind, std::uint64_t sequence, std::span<const std::byte> body) {
  if (!open()) return;
  queue_.push_back(encode(kind, sequence, body));
  if (queue_.size() == 1) write_next();
}

void Connection::write_next() {
  asio::async_write(socket_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      if (error) {
                        self->queue_.clear();
                        return self->closed(Error{ErrorCode::peer_lost, error.message()});
                      }
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->write_next();
                      if (self->close_when_idle_) self->close();
                    });
}

void Connection::close_after_sending() {
  close_when_idle_ = true;
  if (idle()) close();
}

void Connection::shutdown_send() {
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

void Connection::close() {
  error_code ignored;
  timer_.cancel();
  // Without the shutdown, unread bytes would turn the close into a reset that can overtake what
  // was just written.
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
}

void Connection::closed(const Error& why) {
  if (reported_) return;
  reported_ = true;
  close();
  handlers_.closed(shared_from_this(), why);
}

}  // namespace engram::rendezvous
