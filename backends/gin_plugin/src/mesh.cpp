#include "mesh.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <cerrno>
#include <cstring>

namespace engram::gin_plugin {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t kExchange = 1;
constexpr std::uint32_t kGoodbye = 2;
constexpr std::uint32_t kFailed = 3;
constexpr std::uint32_t kMaxPayload = 1 << 20;
constexpr std::uint32_t kMaxFiles = 250;  // the kernel takes 253 in one message

struct Frame {
  std::uint32_t magic = Endpoint::kMagic;
  std::uint32_t kind = 0;
  std::uint64_t sequence = 0;
  std::uint32_t size = 0;
  std::uint32_t files = 0;
};

Deadline after(Nanos limit) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
}

/// A listener with too many strangers at its door may close a rank's connection as well; one whose
/// process is gone refuses the next attempt, which ends this.
Result<FileHandle> dial_patiently(const Endpoint& to, bool use_unix, Rank self, Channel channel,
                                  const std::string& secret, Deadline deadline) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  for (;;) {
    auto socket = dial(to, use_unix, self, channel, secret, deadline);
    if (socket || socket.error().code != ErrorCode::peer_lost ||
        std::chrono::steady_clock::now() + kPause >= deadline) {
      return socket;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

struct Mesh::Io {
  asio::io_context context;
  // One per peer, null for oneself; they borrow the descriptors that Peer owns.
  std::vector<std::unique_ptr<asio::posix::stream_descriptor>> watched;
};

Result<std::unique_ptr<Mesh>> Mesh::connect(Listener& listener, std::span<const Endpoint> endpoints,
                                            Rank self, const Settings& settings,
                                            const Remark& remark) {
  std::unique_ptr<Mesh> mesh(new Mesh);
  mesh->self_ = self;
  mesh->exchange_limit_ = settings.exchange_limit;
  const Deadline deadline = after(settings.exchange_limit);
  for (std::uint32_t r = 0; r < endpoints.size(); ++r) {
    const Endpoint& there = endpoints[r];
    if (there.magic != Endpoint::kMagic || there.version != Endpoint::kVersion) {
      return fail(ErrorCode::invalid_argument, "rank ", r, " runs another version of the plugin");
    }
    auto peer = std::make_unique<Peer>();
    peer->rank = Rank{r};
    peer->same_host = r == self.value || (settings.transport == Transport::automatic &&
                                          there.host == listener.endpoint().host);
    mesh->peers_.push_back(std::move(peer));
  }
  // Everyone dials the ranks below and accepts those above: rank 0 always accepts, so the chain
  // of waiting ranks ends there.
  for (std::uint32_t r = 0; r < self.value; ++r) {
    Peer& peer = *mesh->peers_[r];
    for (const Channel channel : {Channel::control, Channel::data}) {
      auto socket =
          dial_patiently(endpoints[r], peer.same_host, self, channel, settings.secret, deadline);
      if (!socket) return within(socket.error(), "rank ", self.value, " to rank ", r);
      (channel == Channel::control ? peer.control : peer.data) = std::move(*socket);
    }
  }
  std::size_t missing = 2 * (endpoints.size() - self.value - 1);
  bool told = false;  // strangers could make it many
  const Remark once = [&](const std::string& text) {
    if (!std::exchange(told, true)) remark(text);
  };
  while (missing > 0) {
    auto accepted = listener.accept(settings.secret, deadline, once);
    if (!accepted) {
      return within(accepted.error(), "rank ", self.value, " still lacks ", missing,
                    " connections from higher ranks");
    }
    const std::uint32_t r = accepted->rank.value;
    if (r <= self.value || r >= mesh->peers_.size()) continue;
    Peer& peer = *mesh->peers_[r];
    FileHandle& place = accepted->channel == Channel::control ? peer.control : peer.data;
    if (place) continue;  // a second connection that claims the same place
    place = std::move(accepted->socket);
    --missing;
  }
  return mesh;
}

void Mesh::watch(OnLost on_lost) {
  on_lost_ = std::move(on_lost);
  io_ = std::make_unique<Io>();
  for (auto& peer : peers_) {
    io_->watched.push_back(nullptr);
    if (peer->rank == self_) continue;
    io_->watched.back() =
        std::make_unique<asio::posix::stream_descriptor>(io_->context, peer->control.get());
    listen_to(*peer);
  }
  thread_ = std::thread([this] { io_->context.run(); });
}

void Mesh::stop() {
  if (!io_ || !thread_.joinable()) return;
  io_->context.stop();
  thread_.join();
  for (auto& descriptor : io_->watched) {
    if (descriptor) descriptor->release();
  }
}

Mesh::~Mesh() { stop(); }

void Mesh::send_to(Peer& peer, std::uint32_t kind, std::uint64_t sequence,
                   std::span<const std::byte> payload, std::span<const int> fds) {
  Frame frame;
  frame.kind = kind;
  frame.sequence = sequence;
  frame.size = static_cast<std::uint32_t>(payload.size());
  frame.files = static_cast<std::uint32_t>(fds.size());
  const auto head = std::as_bytes(std::span(&frame, 1));
  std::vector<std::byte> text(head.begin(), head.end());
  text.insert(text.end(), payload.begin(), payload.end());
  const std::lock_guard lock(peer.send_mutex);
  auto ok = write_all(peer.control.get(), text, after(exchange_limit_), fds);
  if (!ok) lose(peer, ok.error());
}

Result<std::vector<Offer>> Mesh::exchange(std::span<const std::byte> payload,
                                          std::span<const int> fds) {
  require(payload.size() <= kMaxPayload, "an exchange carries at most 1 MiB");
  if (fds.size() > kMaxFiles) {
    return fail(ErrorCode::unsupported, "a region of ", fds.size(), " segments; at most ",
                kMaxFiles, " can be passed");
  }
  const std::lock_guard one_at_a_time(exchange_mutex_);
  const std::uint64_t sequence = next_sequence_++;
  for (auto& peer : peers_) {
    if (peer->rank == self_) continue;
    send_to(*peer, kExchange, sequence, payload, peer->same_host ? fds : std::span<const int>{});
  }
  std::vector<Offer> offers(peers_.size());
  offers[self_.value].payload.assign(payload.begin(), payload.end());
  const Deadline deadline = after(exchange_limit_);
  std::unique_lock lock(mutex_);
  for (auto& peer : peers_) {
    if (peer->rank == self_) continue;
    const bool told = arrived_.wait_until(lock, deadline, [&] {
      return !peer->mailbox.empty() || peer->lost || peer->left || given_up_;
    });
    if (peer->mailbox.empty()) {
      if (given_up_) return fail(ErrorCode::peer_lost, *given_up_);
      if (!told) {
        return fail(ErrorCode::timed_out, "rank ", self_.value, " waited ",
                    std::chrono::duration_cast<std::chrono::seconds>(exchange_limit_).count(),
                    " s for rank ", peer->rank.value, " in step ", sequence);
      }
      return fail(ErrorCode::peer_lost, "rank ", peer->rank.value, " is gone in step ", sequence,
                  peer->why.empty() ? "" : ": ", peer->why);
    }
    auto [seen, offer] = std::move(peer->mailbox.front());
    peer->mailbox.pop_front();
    if (seen != sequence) {
      return fail(ErrorCode::internal, "rank ", peer->rank.value, " is in step ", seen, ", rank ",
                  self_.value, " in step ", sequence);
    }
    offers[peer->rank.value] = std::move(offer);
  }
  return offers;
}

void Mesh::say_goodbye() {
  for (auto& peer : peers_) {
    if (peer->rank != self_) send_to(*peer, kGoodbye, 0, {}, {});
  }
}

void Mesh::say_failed(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.substr(0, 4096)));
  for (auto& peer : peers_) {
    if (peer->rank != self_) send_to(*peer, kFailed, 0, bytes, {});
  }
}

void Mesh::give_up(std::string text) {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = std::move(text);
  }
  arrived_.notify_all();
}

void Mesh::lose(Peer& peer, Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (peer.lost || peer.left) return;
    peer.lost = true;
    peer.why = error.message;
  }
  arrived_.notify_all();
  on_lost_(peer.rank,
           Error{ErrorCode::peer_lost, fmt::format("rank {} lost rank {}: {}", self_.value,
                                                   peer.rank.value, error.message)});
}

void Mesh::listen_to(Peer& peer) {
  io_->watched[peer.rank.value]->async_wait(asio::posix::descriptor_base::wait_read,
                                            [this, &peer](const boost::system::error_code& error) {
                                              if (!error) take_in(peer);
                                            });
}

/// Reads all that is there, then waits for more.
void Mesh::take_in(Peer& peer) {
  for (;;) {
    std::array<std::byte, 16384> text;
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFiles * sizeof(int))> control;
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(peer.control.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got <= 0) {
      const std::string why = got == 0 ? "it closed its control connection" : std::strerror(errno);
      return lose(peer, Error{ErrorCode::peer_lost, why});
    }
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, reinterpret_cast<const std::byte*>(c) + at, sizeof fd);
        peer.unclaimed.emplace_back(fd);
      }
    }
    peer.unread.insert(peer.unread.end(), text.begin(), text.begin() + got);
    for (;;) {
      auto more = parse(peer);
      if (!more) return lose(peer, more.error());
      if (!*more) break;
    }
  }
  listen_to(peer);
}

/// Takes one frame out of what was read. Errors: invalid_argument for what no peer sends.
Result<bool> Mesh::parse(Peer& peer) {
  Frame frame;
  if (peer.unread.size() < sizeof frame) return false;
  std::memcpy(&frame, peer.unread.data(), sizeof frame);
  if (frame.magic != Endpoint::kMagic || frame.kind < kExchange || frame.kind > kFailed ||
      frame.size > kMaxPayload || frame.files > kMaxFiles) {
    return fail(ErrorCode::invalid_argument, "a control frame of kind ", frame.kind, ", size ",
                frame.size, ", ", frame.files, " files is refused");
  }
  const std::size_t whole = sizeof frame + frame.size;
  if (peer.unread.size() < whole) return false;
  if (peer.unclaimed.size() < frame.files && !peer.same_host) {
    return fail(ErrorCode::invalid_argument, "files announced on a TCP connection");
  }
  if (peer.unclaimed.size() < frame.files) return false;
  Offer offer;
  const auto body = peer.unread.begin() + sizeof frame;
  offer.payload.assign(body, body + frame.size);
  for (std::uint32_t i = 0; i < frame.files; ++i) {
    offer.files.push_back(std::move(peer.unclaimed[i]));
  }
  peer.unclaimed.erase(peer.unclaimed.begin(), peer.unclaimed.begin() + frame.files);
  peer.unread.erase(peer.unread.begin(), peer.unread.begin() + static_cast<std::ptrdiff_t>(whole));
  if (frame.kind == kFailed) {
    std::string text(reinterpret_cast<const char*>(offer.payload.data()), offer.payload.size());
    return fail(ErrorCode::peer_lost, "it failed: ", text);
  }
  {
    const std::lock_guard lock(mutex_);
    if (frame.kind == kGoodbye) {
      peer.left = true;
    } else {
      peer.mailbox.emplace_back(frame.sequence, std::move(offer));
    }
  }
  arrived_.notify_all();
  return true;
}

}  // namespace engram::gin_plugin
