#include "handshake.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>

#include "engram/core/result.hpp"

namespace engram::gin_plugin {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// A few bytes fit an empty send buffer; a socket that does not take them is given up.
template <class T>
bool send_whole(int fd, const T& value) {
  return send(fd, &value, sizeof value, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof value);
}

}  // namespace

void fill_random(std::span<std::byte> bytes) {
  const auto got = getrandom(bytes.data(), bytes.size(), 0);
  require(got == static_cast<ssize_t>(bytes.size()), "getrandom gives small requests whole");
}

Digest job_key(const Endpoint& endpoint, const std::string& secret) {
  std::vector<std::byte> text(endpoint.token.begin(), endpoint.token.end());
  const auto tail = std::as_bytes(std::span(secret));
  text.insert(text.end(), tail.begin(), tail.end());
  return sha256(text);
}

Digest proof(const Digest& key, char side, const Hello& hello, const Challenge& challenge) {
  std::vector<std::byte> text{static_cast<std::byte>(side)};
  const auto a = bytes_of(hello);
  text.insert(text.end(), a.begin(), a.end());
  text.insert(text.end(), challenge.nonce.begin(), challenge.nonce.end());
  return hmac_sha256(key, text);
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on UNIX sockets: no matter
}

void Lobby::admit(FileHandle socket) {
  if (guests_.size() >= kMaxUnproven) guests_.pop_front();
  Guest guest;
  guest.socket = std::move(socket);
  guest.deadline = std::chrono::steady_clock::now() + kHandshakeLimit;
  guests_.push_back(std::move(guest));
}

void Lobby::add_polls(std::vector<pollfd>& entries) const {
  for (const Guest& guest : guests_) entries.push_back({guest.socket.get(), POLLIN, 0});
}

std::optional<Accepted> Lobby::serve(const Endpoint& self, const std::string& secret,
                                     const Remark& remark) {
  const auto now = std::chrono::steady_clock::now();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const Step step = advance(*guest, self, secret);
    if (step == Step::waits && now < guest->deadline) {
      ++guest;
      continue;
    }
    Guest done = std::move(*guest);
    guest = guests_.erase(guest);
    if (step == Step::proved) {
      set_no_delay(done.socket.get());
      return Accepted{Rank{done.hello.rank}, static_cast<Channel>(done.hello.channel),
                      std::move(done.socket)};
    }
    if (step == Step::failed_proof) {
      last_remark_ = fmt::format(
          "a connection that calls itself rank {} ended at the proof of the job's secret "
          "(ENGRAM_GIN_SECRET differs?)",
          done.hello.rank);
      if (remark) remark(last_remark_);
    }
  }
  return std::nullopt;
}

Lobby::Step Lobby::advance(Guest& guest, const Endpoint& self, const std::string& secret) {
  const int fd = guest.socket.get();
  for (;;) {
    const bool greeted = guest.got >= sizeof guest.hello;
    const auto into = greeted ? std::span<std::byte>(guest.answer)
                              : std::as_writable_bytes(std::span(&guest.hello, 1));
    const auto left = into.subspan(guest.got - (greeted ? sizeof guest.hello : 0));
    const ssize_t got = recv(fd, left.data(), left.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Step::waits;
    // A rank with another secret hangs up when it sees the listener's own proof.
    if (got <= 0) return greeted ? Step::failed_proof : Step::gone;
    guest.got += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < left.size()) continue;
    const Digest key = job_key(self, secret);
    if (greeted) {
      if (!equal(guest.answer, proof(key, 'D', guest.hello, guest.challenge))) {
        return Step::failed_proof;
      }
      return send_whole(fd, std::byte{1}) ? Step::proved : Step::gone;
    }
    const Hello& hello = guest.hello;
    if (hello.magic != Endpoint::kMagic || hello.version != Endpoint::kVersion ||
        (hello.channel != 1 && hello.channel != 2)) {
      return Step::gone;
    }
    fill_random(guest.challenge.nonce);
    guest.challenge.proof = proof(key, 'L', hello, guest.challenge);
    if (!send_whole(fd, guest.challenge)) return Step::gone;
  }
}

}  // namespace engram::gin_plugin
