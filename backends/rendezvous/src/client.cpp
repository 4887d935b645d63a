#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "engram/rendezvous/rendezvous.hpp"
#include "resolve.hpp"
#include "server.hpp"
#include "wire.hpp"

namespace engram::rendezvous {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

/// Rank 0's own deadline passes first and names the missing ranks; a client's comes this much later
/// and can only say that rank 0 is silent.
constexpr Nanos kGrace = std::chrono::seconds(3);
/// Ranks start at different times: not worth a word before.
constexpr Nanos kQuietStart = std::chrono::seconds(1);
constexpr Nanos kConnectPause = std::chrono::milliseconds(20);

double seconds(Nanos t) { return std::chrono::duration<double>(t).count(); }

}  // namespace

class Rendezvous::Impl {
 public:
  Impl(const Identity& who, const Options& how) : identity(who), options(how) {}
  ~Impl() {
    if (socket_.is_open() && !failure_) {
      error_code ignored;
      asio::write(socket_, asio::buffer(encode(FrameKind::goodbye, sequence_, {})), ignored);
    }
    error_code ignored;
    if (socket_.is_open()) socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (!server_) socket_.close(ignored);
    // Rank 0: ~Server below waits for the other ranks; its own client has said goodbye.
  }

  [[nodiscard]] Result<void> join() {
    if (identity.num_ranks == 1) return {};
    const Clock::time_point deadline = Clock::now() + options.start_limit;
    std::string host = identity.host;
    std::uint16_t port = identity.port;
    if (identity.rank == Rank{0}) {
      auto server = Server::start(identity, options);
      if (!server) return tl::unexpected<Error>(server.error());
      server_ = std::move(*server);
      port = server_->port();
      if (identity.listen_fd) host = "127.0.0.1";
    }
    return meet(host, port, deadline);
  }

  /// One collective operation: send my part, return the body of rank 0's answer.
  [[nodiscard]] Result<Body> operate(FrameKind kind, std::span<const std::byte> body) {
    if (failure_) return tl::unexpected<Error>(*failure_);
    if (body.size() > options.max_block.count + 32) {
      return fail(ErrorCode::out_of_range, name_of(kind), " block of ", body.size(),
                  " bytes, at most ", options.max_block.count);
    }
    const auto sent = send(kind, body, options.operation_limit);
    // Rank 0 may have said why before the socket broke: its word is better than the socket's.
    auto answer = receive(sent ? options.operation_limit + kGrace : kGrace);
    if (answer) ++sequence_;
    return answer;
  }

  [[nodiscard]] bool failure_pending() {
    if (failure_) return true;
    if (!socket_.is_open()) return false;
    pollfd entry{socket_.native_handle(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;  // between operations rank 0 sends nothing but failures
  }

  Identity identity;
  Options options;

 private:
  /// Connects and says hello until rank 0 answers. Rank 0 may hang up without a word while
  /// strangers crowd its port; a rank 0 that is gone refuses the next attempt.
  [[nodiscard]] Result<void> meet(const std::string& host, std::uint16_t port,
                                  Clock::time_point deadline) {
    Hello hello{identity.rank, identity.num_ranks, identity.job_id, identity.secret, {}};
    error_code ignored;
    hello.host = asio::ip::host_name(ignored).substr(0, 1024);
    std::optional<Error> hung_up;
    for (;;) {
      if (const auto reached = connect(host, port, deadline, hung_up); !reached) return reached;
      stream_ended_ = false;
      const auto sent = send(FrameKind::hello, encode_hello(hello), kGrace);
      // The wait starts when rank 0's did, or earlier; rank 0's own limit ends it. A refused hello
      // may break the pipe before its reason is read.
      const auto answer = receive(sent ? options.start_limit + kGrace : kGrace);
      if (answer) return {};
      if (!stream_ended_ || Clock::now() + kConnectPause >= deadline) {
        return tl::unexpected<Error>(answer.error());
      }
      hung_up = answer.error();
      failure_.reset();
      socket_.close(ignored);
      std::this_thread::sleep_for(kConnectPause);
    }
  }

  /// With `hung_up`, the end of an earlier connection, a refused one is final and that is the
  /// error.
  [[nodiscard]] Result<void> connect(const std::string& host, std::uint16_t port,
                                     Clock::time_point deadline,
                                     const std::optional<Error>& hung_up) {
    const Clock::time_point start = Clock::now();
    bool told = false;
    std::string cause = "no attempt was made";
    do {
      error_code error;
      const auto endpoints = resolve(
          host, port, deadline,
          [&] {
            if (!options.say || std::exchange(told, true)) return;
            options.say(fmt::format(
                "rank {} still looks up the name {} of rank 0's host; it goes on for {:.0f} s",
                identity.rank.value, host, seconds(deadline - Clock::now())));
          },
          error);
      const bool unresolved = static_cast<bool>(error);
      if (!error) {
        error = asio::error::would_block;
        asio::async_connect(socket_, endpoints,
                            [&error](error_code got, const tcp::endpoint&) { error = got; });
        run_until(deadline);
      }
      if (!error) {
        socket_.set_option(tcp::no_delay(true), error);
        return {};
      }
      if (hung_up && error == asio::error::connection_refused) return lost(*hung_up);
      cause = error.message();
      socket_.close(error);
      if (options.say && (unresolved || Clock::now() - start > kQuietStart) &&
          !std::exchange(told, true)) {
        options.say(
            fmt::format("rank {} cannot reach rank 0 at {}:{} ({}); it retries for {:.0f} s",
                        identity.rank.value, host, port, cause, seconds(deadline - Clock::now())));
      }
      std::this_thread::sleep_for(kConnectPause);
    } while (Clock::now() < deadline);
    return fail(ErrorCode::timed_out, "rank ", identity.rank.value, " cannot reach rank 0 at ",
                host, ":", port, " within ", seconds(options.start_limit), " s: ", cause);
  }

  [[nodiscard]] Result<void> send(FrameKind kind, std::span<const std::byte> body, Nanos limit) {
    const Body frame = encode(kind, sequence_, body);
    error_code error = asio::error::would_block;
    asio::async_write(socket_, asio::buffer(frame),
                      [&error](error_code got, std::size_t) { error = got; });
    run_until(Clock::now() + limit);
    if (!error) return {};
    return fail(ErrorCode::peer_lost, "sending to rank 0 failed: ", error.message());
  }

  /// The next frame's body. An error that ends the session is kept for all later calls.
  [[nodiscard]] Result<Body> receive(Nanos limit) {
    const Clock::time_point deadline = Clock::now() + limit;
    std::array<std::byte, kHeaderBytes> raw{};
    if (const auto got = read(asio::buffer(raw), deadline, limit); !got) return lost(got.error());
    const Bytes max_body{identity.num_ranks * (options.max_block.count + 64) + 2 * kMaxErrorText};
    const auto header = decode(raw, max_body);
    if (!header) return lost(header.error());
    Body body(header->body_bytes);
    if (const auto got = read(asio::buffer(body), deadline, limit); !got) return lost(got.error());
    switch (header->kind) {
      case FrameKind::welcome:
        return body;
      case FrameKind::result:
        if (header->sequence == sequence_) return body;
        return lost(Error{ErrorCode::internal,
                          fmt::format("rank 0 answered operation {}, rank {} is in {}",
                                      header->sequence, identity.rank.value, sequence_)});
      case FrameKind::failure: {
        Error error = decode_error(body);
        ++sequence_;
        return tl::unexpected<Error>(std::move(error));
      }
      case FrameKind::refused: {
        Error error = decode_error(body);
        error.message = fmt::format("rank 0 at {}:{} refused rank {}: {}", identity.host,
                                    identity.port, identity.rank.value, error.message);
        return lost(std::move(error));
      }
      case FrameKind::poisoned:
        return lost(decode_error(body));
      default:
        return lost(Error{ErrorCode::internal,
                          fmt::format("rank 0 sent an unexpected {}", name_of(header->kind))});
    }
  }

  [[nodiscard]] Result<void> read(asio::mutable_buffer into, Clock::time_point deadline,
                                  Nanos limit) {
    error_code error = asio::error::would_block;
    asio::async_read(socket_, into, [&error](error_code got, std::size_t) { error = got; });
    run_until(deadline);
    if (!error) return {};
    if (error == asio::error::would_block || error == asio::error::operation_aborted) {
      return fail(ErrorCode::timed_out, "rank 0, which serves, did not answer rank ",
                  identity.rank.value, " within ", seconds(limit), " s");
    }
    stream_ended_ = true;
    return fail(ErrorCode::peer_lost, "rank 0, which serves, was lost: ", error.message());
  }

  /// Runs the one pending socket call; past the deadline it is cancelled and its handler still
  /// runs.
  void run_until(Clock::time_point deadline) {
    io_.restart();
    io_.run_until(deadline);
    if (io_.stopped()) return;
    error_code ignored;
    socket_.cancel(ignored);
    io_.restart();
    io_.run();
  }

  [[nodiscard]] tl::unexpected<Error> lost(Error error) {
    failure_ = error;
    return tl::unexpected<Error>(std::move(error));
  }

  std::unique_ptr<Server> server_;
  asio::io_context io_{1};
  tcp::socket socket_{io_};
  std::uint64_t sequence_ = 0;
  std::optional<Error> failure_;
  bool stream_ended_ = false;  ///< the socket said so, not a frame of rank 0's
};

Rendezvous::Rendezvous(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rendezvous::Rendezvous(Rendezvous&&) noexcept = default;
Rendezvous& Rendezvous::operator=(Rendezvous&&) noexcept = default;
Rendezvous::~Rendezvous() = default;

Result<Rendezvous> Rendezvous::join(const Identity& identity, const Options& options) {
  if (identity.num_ranks == 0 || identity.rank.value >= identity.num_ranks) {
    return fail(ErrorCode::invalid_argument, "rank ", identity.rank.value, " of ",
                identity.num_ranks);
  }
  if (identity.job_id.size() > 1024 || identity.secret.size() > 1024) {
    return fail(ErrorCode::out_of_range, "job id of ", identity.job_id.size(), " and secret of ",
                identity.secret.size(), " bytes, at most 1024 each");
  }
  auto impl = std::make_unique<Impl>(identity, options);
  if (const auto joined = impl->join(); !joined) return tl::unexpected<Error>(joined.error());
  return Rendezvous(std::move(impl));
}

Rank Rendezvous::rank() const { return impl_->identity.rank; }
std::uint32_t Rendezvous::num_ranks() const { return impl_->identity.num_ranks; }
const Identity& Rendezvous::identity() const { return impl_->identity; }
bool Rendezvous::failure_pending() { return impl_->failure_pending(); }

Result<std::vector<Block>> Rendezvous::allgather(std::span<const std::byte> mine) {
  if (num_ranks() == 1) return std::vector<Block>{Block(mine.begin(), mine.end())};
  const auto answer = impl_->operate(FrameKind::allgather, mine);
  if (!answer) return tl::unexpected<Error>(answer.error());
  Reader in(*answer);
  std::vector<Block> blocks;
  for (std::uint32_t r = 0; r < num_ranks(); ++r) {
    const auto block = in.bytes();
    if (!block) return within(block.error(), "allgather, block of rank ", r);
    blocks.emplace_back(block->begin(), block->end());
  }
  return blocks;
}

Result<Block> Rendezvous::broadcast(Rank root, std::span<const std::byte> mine) {
  if (root.value >= num_ranks()) {
    return fail(ErrorCode::out_of_range, "broadcast root ", root.value, " of ", num_ranks());
  }
  if (num_ranks() == 1) return Block(mine.begin(), mine.end());
  Writer out;
  out.number(root.value, 4);
  Body body = out.take();
  if (root == rank()) body.insert(body.end(), mine.begin(), mine.end());
  const auto answer = impl_->operate(FrameKind::broadcast, body);
  if (!answer) return tl::unexpected<Error>(answer.error());
  Reader in(*answer);
  const auto block = in.bytes();
  if (!block) return tl::unexpected<Error>(block.error());
  return Block(block->begin(), block->end());
}

Result<void> Rendezvous::barrier() {
  if (num_ranks() == 1) return {};
  const auto answer = impl_->operate(FrameKind::barrier, {});
  if (!answer) return tl::unexpected<Error>(answer.error());
  return {};
}

Result<void> Rendezvous::agree(const Result<void>& mine) {
  if (num_ranks() == 1) return mine;
  const auto answer = impl_->operate(FrameKind::agree, mine ? Body{} : encode_error(mine.error()));
  if (!answer) return tl::unexpected<Error>(answer.error());
  return {};
}

}  // namespace engram::rendezvous
