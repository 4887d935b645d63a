#include "sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace engram::gin_plugin {
namespace {

Result<void> wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return fail(ErrorCode::timed_out, "socket: nothing before the deadline");
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(ErrorCode::io, "poll: ", std::strerror(errno));
  }
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

sockaddr_un abstract_address(const Endpoint& endpoint, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, endpoint.unix_name.data(), endpoint.unix_name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + endpoint.unix_name.size());
  return address;
}

sockaddr_in inet_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address);
  result.sin_port = htons(port);
  return result;
}

Result<std::uint32_t> choose_address(const std::string& wanted) {
  if (!wanted.empty()) {
    in_addr parsed{};
    if (inet_pton(AF_INET, wanted.c_str(), &parsed) != 1) {
      return fail(ErrorCode::invalid_argument, "ENGRAM_GIN_ADDRESS=", wanted,
                  " is not an IPv4 address");
    }
    return ntohl(parsed.s_addr);
  }
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return fail(ErrorCode::io, "getifaddrs: ", std::strerror(errno));
  std::uint32_t chosen = INADDR_LOOPBACK;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    chosen = ntohl(reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr);
    break;
  }
  freeifaddrs(all);
  return chosen;
}

bool is_loopback(std::uint32_t address) { return address >> 24 == 127; }

Digest host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  struct stat info {};
  if (stat("/proc/self/ns/net", &info) == 0) text += "/" + std::to_string(info.st_ino);
  return sha256(std::as_bytes(std::span(text)));
}

}  // namespace

Result<void> read_exactly(int fd, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const ssize_t got = recv(fd, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return fail(ErrorCode::peer_lost, "the peer closed the connection");
    } else if (errno == EAGAIN || errno == EINTR) {
      auto ok = wait_for(fd, POLLIN, deadline);
      if (!ok) return ok;
    } else {
      return fail(ErrorCode::io, "reading a socket: ", std::strerror(errno));
    }
  }
  return {};
}

Result<void> write_all(int fd, std::span<const std::byte> text, Deadline deadline,
                       std::span<const int> fds) {
  while (!text.empty()) {
    iovec part{const_cast<std::byte*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    std::vector<std::byte> control(fds.empty() ? 0 : CMSG_SPACE(fds.size_bytes()));
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    const ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      text = text.subspan(static_cast<std::size_t>(sent));
      fds = {};
    } else if (errno == EAGAIN || errno == EINTR) {
      auto ok = wait_for(fd, POLLOUT, deadline);
      if (!ok) return ok;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(ErrorCode::peer_lost, "the peer closed the connection");
    } else {
      return fail(ErrorCode::io, "writing a socket: ", std::strerror(errno));
    }
  }
  return {};
}

Result<Listener> Listener::open(const Settings& settings) {
  auto address = choose_address(settings.address);
  if (!address) return tl::unexpected(address.error());
  if (settings.transport == Transport::tcp && settings.address.empty() && settings.secret.empty()) {
    *address = INADDR_LOOPBACK;  // forced TCP without a secret stays on this host
  }
  Listener listener;
  Endpoint& endpoint = listener.endpoint_;
  fill_random(endpoint.token);
  fill_random(endpoint.unix_name);
  endpoint.host = host_identity();

  listener.unix_ = FileHandle(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un name = abstract_address(endpoint, length);
  if (bind(listener.unix_.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 ||
      listen(listener.unix_.get(), 1024) != 0) {
    return fail(ErrorCode::io, "listening on a UNIX socket: ", std::strerror(errno));
  }
  // Without a secret no socket is opened to other hosts; ranks there get a clear answer in dial().
  if (settings.secret.empty() && !is_loopback(*address)) return listener;
  listener.tcp_ = FileHandle(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in inet = inet_address(*address, 0);
  length = sizeof inet;
  if (bind(listener.tcp_.get(), reinterpret_cast<const sockaddr*>(&inet), length) != 0 ||
      listen(listener.tcp_.get(), 1024) != 0 ||
      getsockname(listener.tcp_.get(), reinterpret_cast<sockaddr*>(&inet), &length) != 0) {
    return fail(ErrorCode::io, "listening on TCP: ", std::strerror(errno));
  }
  endpoint.address = *address;
  endpoint.port = ntohs(inet.sin_port);
  return listener;
}

Result<Accepted> Listener::accept(const std::string& secret, Deadline deadline,
                                  const Remark& remark) {
  for (;;) {
    if (auto accepted = lobby_.serve(endpoint_, secret, remark)) return std::move(*accepted);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      const std::string& last = lobby_.last_remark();
      return fail(ErrorCode::timed_out, "no connection before the deadline",
                  last.empty() ? "" : "; ", last);
    }
    std::vector<pollfd> entries{{unix_.get(), POLLIN, 0}};
    if (tcp_) entries.push_back({tcp_.get(), POLLIN, 0});
    const std::size_t doors = entries.size();
    lobby_.add_polls(entries);
    if (poll(entries.data(), entries.size(),
             static_cast<int>(std::min<std::int64_t>(left.count(), 1000))) <= 0) {
      continue;
    }
    // One from each door a round: those already inside are read before many more come.
    for (std::size_t i = 0; i < doors; ++i) {
      if (entries[i].revents == 0) continue;
      FileHandle socket(accept4(entries[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) lobby_.admit(std::move(socket));
    }
  }
}

Result<FileHandle> dial(const Endpoint& to, bool use_unix, Rank self, Channel channel,
                        const std::string& secret, Deadline deadline) {
  if (!use_unix && to.port == 0) {
    return fail(ErrorCode::unsupported,
                "the peer offers no TCP socket: set ENGRAM_GIN_SECRET to "
                "the same random text on all hosts, which sockets between hosts require");
  }
  FileHandle socket(
      ::socket(use_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = sizeof(sockaddr_in);
  const sockaddr_un name = abstract_address(to, length);
  const sockaddr_in inet = inet_address(to.address, to.port);
  if (!use_unix) length = sizeof inet;
  const auto* address = use_unix ? reinterpret_cast<const sockaddr*>(&name)
                                 : reinterpret_cast<const sockaddr*>(&inet);
  if (connect(socket.get(), address, length) != 0) {
    if (errno != EINPROGRESS && errno != EAGAIN) {
      return fail(ErrorCode::io, "connecting to a peer: ", std::strerror(errno));
    }
    auto ok = wait_for(socket.get(), POLLOUT, deadline);
    if (!ok) return tl::unexpected(ok.error());
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(ErrorCode::io, "connecting to a peer: ", std::strerror(error));
  }
  Hello hello;
  hello.rank = self.value;
  hello.channel = static_cast<std::uint32_t>(channel);
  fill_random(hello.nonce);
  auto ok = write_all(socket.get(), bytes_of(hello), deadline);
  Challenge challenge;
  if (ok) {
    ok = read_exactly(socket.get(), std::as_writable_bytes(std::span(&challenge, 1)), deadline);
  }
  if (!ok) return tl::unexpected(ok.error());
  const Digest key = job_key(to, secret);
  if (!equal(challenge.proof, proof(key, 'L', hello, challenge))) {
    return fail(ErrorCode::invalid_argument,
                "the listener does not know the job's secret (ENGRAM_GIN_SECRET differs?)");
  }
  const Digest answer = proof(key, 'D', hello, challenge);
  std::byte welcome{0};
  ok = write_all(socket.get(), answer, deadline);
  if (ok) ok = read_exactly(socket.get(), std::span(&welcome, 1), deadline);
  if (!ok) return tl::unexpected(ok.error());
  set_no_delay(socket.get());
  return socket;
}

}  // namespace engram::gin_plugin
