#include "session.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "engram/rendezvous/secret.hpp"
#include "resolve.hpp"

namespace engram::rendezvous {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// A connection that says nothing may hold a place this long; a real client sends its hello at
/// once.
constexpr Nanos kHelloLimit = std::chrono::seconds(5);
/// Connections without an accepted hello beyond one a rank: enough for retries, few enough to bound
/// what strangers can hold open. For one more the oldest is closed: a rank says hello at once, and
/// comes again if it was the one.
constexpr std::size_t kMaxStrangers = 64;
/// How long a stopping server waits for the ranks to close their side.
constexpr Nanos kLinger = std::chrono::milliseconds(500);

double seconds(Nanos t) { return std::chrono::duration<double>(t).count(); }

}  // namespace

Server::Session::Session(const Identity& identity, const Options& options)
    : identity_(identity),
      options_(options),
      members_(identity.num_ranks),
      left_(identity.num_ranks, false) {}

Result<std::uint16_t> Server::Session::listen() {
  error_code error;
  if (identity_.listen_fd) {
    acceptor_.assign(tcp::v4(), *identity_.listen_fd, error);
    if (error) {
      return fail(ErrorCode::io, "the listening socket handed over (descriptor ",
                  *identity_.listen_fd, ") cannot be used: ", error.message());
    }
  } else {
    const auto found = resolve(
        identity_.host, identity_.port, std::chrono::steady_clock::now() + options_.start_limit,
        [&] {
          if (!options_.say) return;
          options_.say(fmt::format("rank 0 still looks up its own name {}", identity_.host));
        },
        error);
    if (error) {
      return fail(ErrorCode::io, "rank 0 cannot resolve its address ", identity_.host, ": ",
                  error.message());
    }
    tcp::endpoint endpoint = *found.begin();
    acceptor_.open(endpoint.protocol(), error);
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    if (error ==
        boost::system::errc::address_not_available) {  // a name that is not an interface of ours
      acceptor_.bind({endpoint.protocol(), identity_.port}, error);
    }
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(ErrorCode::io, "rank 0 cannot listen at ", identity_.host, ":", identity_.port,
                  ": ", error.message(), "; set ENGRAM_RENDEZVOUS=HOST:PORT to another port");
    }
  }
  const auto local = acceptor_.local_endpoint(error);
  if (error) return fail(ErrorCode::io, "listening socket without an address: ", error.message());
  return local.port();
}

void Server::Session::run() {
  start_timer_.expires_after(options_.start_limit);
  start_timer_.async_wait([this](error_code error) {
    if (error || num_joined() == identity_.num_ranks) return;
    std::map<Rank, bool> seen;
    for (std::uint32_t r = 0; r < identity_.num_ranks; ++r) seen[Rank{r}] = members_[r] != nullptr;
    std::string text = fmt::format("start-up: {} did not join within {} s at {}:{}",
                                   describe_missing(seen), seconds(options_.start_limit),
                                   identity_.host, acceptor_.local_endpoint().port());
    if (last_refusal_) text += "; last connection refused: " + *last_refusal_;
    poison(Error{ErrorCode::timed_out, std::move(text)});
  });
  accept_next();
  io_.run();
}

void Server::Session::accept_next() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      std::erase_if(strangers_, [](const auto& weak) {
        const auto held = weak.lock();
        return !held || !held->open() || held->rank().has_value();
      });
      if (strangers_.size() >= kMaxStrangers + identity_.num_ranks) {
        const auto oldest = strangers_.front().lock();
        strangers_.erase(strangers_.begin());
        if (oldest) {
          oldest->closed(Error{ErrorCode::timed_out, "no hello before many others connected"});
        }
      }
      auto connection = std::make_shared<Connection>(
          std::move(socket),
          Connection::Handlers{
              [this](const auto& from, const Header& header, Body body) {
                on_frame(from, header, std::move(body));
              },
              [this](const auto& from, const Error& why) { on_closed(from, why); }});
      strangers_.push_back(connection);
      connection->start(kHelloLimit);
    }
    accept_next();
  });
}

void Server::Session::on_frame(const std::shared_ptr<Connection>& from, const Header& header,
                               Body body) {
  if (!from->rank()) {
    if (header.kind == FrameKind::hello) return on_hello(from, body);
    return from->close();
  }
  const Rank rank = *from->rank();
  if (header.kind == FrameKind::goodbye) {
    left_[rank.value] = true;
    if (!operation_.entered.empty() && !operation_.entered.contains(rank)) {
      poison(Error{ErrorCode::peer_lost,
                   fmt::format("rank {} left before operation {} ({})", rank.value, sequence_,
                               name_of(operation_.kind))});
    }
    return stop_if_done();
  }
  on_operation(rank, header, std::move(body));
}

void Server::Session::on_closed(const std::shared_ptr<Connection>& from, const Error& why) {
  if (!from->rank()) {
    last_refusal_ = from->address() + ": " + why.message;
    return;
  }
  const Rank rank = *from->rank();
  if (!left_[rank.value] && !stopping_) {
    poison(Error{ErrorCode::peer_lost, fmt::format("rank {} at {} was lost: {}", rank.value,
                                                   from->address(), why.message)});
  }
  left_[rank.value] = true;
  stop_if_done();
}

Result<void> Server::Session::check(const Hello& hello) const {
  // The secret first, and alone: a stranger learns nothing else about the job.
  if (!equal_in_constant_time(identity_.secret, hello.secret)) {
    return fail(ErrorCode::invalid_argument,
                "the secret differs from rank 0's; every rank needs the same ENGRAM_SECRET");
  }
  if (hello.job_id != identity_.job_id) {
    return fail(ErrorCode::invalid_argument, "job '", hello.job_id,
                "' asked at the address of job '", identity_.job_id, "'");
  }
  if (hello.num_ranks != identity_.num_ranks) {
    return fail(ErrorCode::invalid_argument, "rank ", hello.rank.value, " counts ", hello.num_ranks,
                " ranks, rank 0 counts ", identity_.num_ranks);
  }
  if (hello.rank.value >= identity_.num_ranks) {
    return fail(ErrorCode::out_of_range, "rank ", hello.rank.value, " of ", identity_.num_ranks);
  }
  if (const auto& other = members_[hello.rank.value]) {
    return fail(ErrorCode::invalid_argument, "rank ", hello.rank.value, " has already joined from ",
                other->address());
  }
  return {};
}

void Server::Session::on_hello(const std::shared_ptr<Connection>& from,
                               std::span<const std::byte> body) {
  const auto hello = decode_hello(body);
  const Result<void> verdict =
      hello ? check(*hello) : Result<void>(tl::unexpected<Error>(hello.error()));
  if (!verdict) {
    last_refusal_ = from->address() + ": " + verdict.error().message;
    from->send(FrameKind::refused, 0, encode_error(verdict.error()));
    return from->close_after_sending();
  }
  from->trust(hello->rank, options_.max_block + Bytes{64});
  members_[hello->rank.value] = from;
  if (failure_) return from->send(FrameKind::poisoned, 0, encode_error(*failure_));
  if (num_joined() < identity_.num_ranks) return;
  start_timer_.cancel();
  send_all(FrameKind::welcome, {});
}

void Server::Session::on_operation(Rank rank, const Header& header, Body body) {
  if (failure_) return;  // the rank has been told
  if (header.sequence < sequence_ && header.kind == FrameKind::agree) return;  // failed already
  const bool known = header.kind == FrameKind::allgather || header.kind == FrameKind::barrier ||
                     header.kind == FrameKind::broadcast || header.kind == FrameKind::agree;
  if (!known || header.sequence != sequence_ || operation_.entered.contains(rank)) {
    return poison(Error{ErrorCode::invalid_argument,
                        fmt::format("rank {} sent {} {} while operation {} runs", rank.value,
                                    name_of(header.kind), header.sequence, sequence_)});
  }
  if (operation_.entered.empty()) {
    operation_.kind = header.kind;
    operation_timer_.expires_after(options_.operation_limit);
    operation_timer_.async_wait([this, sequence = sequence_](error_code error) {
      if (error || sequence != sequence_ || operation_.entered.empty()) return;
      std::map<Rank, bool> seen;
      for (std::uint32_t r = 0; r < identity_.num_ranks; ++r) {
        seen[Rank{r}] = operation_.entered.contains(Rank{r});
      }
      poison(Error{ErrorCode::timed_out,
                   fmt::format("operation {} ({}): {} not seen within {} s", sequence_,
                               name_of(operation_.kind), describe_missing(seen),
                               seconds(options_.operation_limit))});
    });
  } else if (operation_.kind != header.kind) {
    return poison(Error{ErrorCode::invalid_argument,
                        fmt::format("operation {}: rank {} entered {}, rank {} entered {}",
                                    sequence_, operation_.entered.begin()->first.value,
                                    name_of(operation_.kind), rank.value, name_of(header.kind))});
  }
  if (header.kind == FrameKind::agree && !body.empty()) {
    Error error = decode_error(body);
    error.message = fmt::format("rank {}: {}", rank.value, error.message);
    return fail_operation(error);
  }
  operation_.entered.emplace(rank, std::move(body));
  for (std::uint32_t r = 0; r < identity_.num_ranks; ++r) {
    if (left_[r] && !operation_.entered.contains(Rank{r})) {
      return poison(
          Error{ErrorCode::peer_lost, fmt::format("rank {} left before operation {} ({})", r,
                                                  sequence_, name_of(operation_.kind))});
    }
  }
  if (operation_.entered.size() == identity_.num_ranks) finish_operation();
}

void Server::Session::finish_operation() {
  Writer out;
  if (operation_.kind == FrameKind::allgather) {
    for (const auto& [rank, body] : operation_.entered) out.bytes(body);
  } else if (operation_.kind == FrameKind::broadcast) {
    std::optional<std::uint64_t> root;
    for (const auto& [rank, body] : operation_.entered) {
      const auto named = Reader(body).number(4);
      if (!named || *named >= identity_.num_ranks || (root && *root != *named)) {
        return poison(
            Error{ErrorCode::invalid_argument,
                  fmt::format("operation {}: rank {} named broadcast root {}, rank 0 {}", sequence_,
                              rank.value, named.value_or(0), root.value_or(0))});
      }
      root = *named;
    }
    const Body& chosen = operation_.entered.at(Rank{static_cast<std::uint32_t>(*root)});
    out.bytes(std::span(chosen).subspan(4));
  }
  send_all(FrameKind::result, out.take());
  operation_timer_.cancel();
  operation_ = {};
  ++sequence_;
}

void Server::Session::fail_operation(const Error& error) {
  send_all(FrameKind::failure, encode_error(error));
  operation_timer_.cancel();
  operation_ = {};
  ++sequence_;
}

void Server::Session::send_all(FrameKind kind, std::span<const std::byte> body) {
  for (const auto& member : members_) {
    if (member) member->send(kind, sequence_, body);
  }
}

void Server::Session::poison(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  start_timer_.cancel();
  operation_timer_.cancel();
  send_all(FrameKind::poisoned, encode_error(*failure_));
}

void Server::Session::request_stop() {
  asio::post(io_, [this] {
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    start_timer_.cancel();
    stop_timer_.expires_after(kLinger);
    stop_timer_.async_wait([this](error_code) { io_.stop(); });
    for (const auto& member : members_) {
      // A rank that is still here reads the end of the stream at its next operation.
      if (member && member->open() && member->idle()) member->shutdown_send();
    }
    stop_if_done();
  });
}

void Server::Session::stop_if_done() {
  if (!stopping_) return;
  for (std::uint32_t r = 0; r < identity_.num_ranks; ++r) {
    if (members_[r] && !left_[r]) return;
  }
  io_.stop();
}

std::uint32_t Server::Session::num_joined() const {
  std::uint32_t count = 0;
  for (const auto& member : members_) count += member != nullptr;
  return count;
}

std::string Server::Session::describe_missing(const std::map<Rank, bool>& seen) const {
  std::string list;
  std::uint32_t missing = 0;
  for (const auto& [rank, here] : seen) {
    if (here) continue;
    ++missing;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", rank.value);
  }
  return fmt::format("{} {} of {}", missing == 1 ? "rank" : "ranks", list, identity_.num_ranks);
}

}  // namespace engram::rendezvous
