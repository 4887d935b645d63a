#include "engram/rendezvous/handle_passing.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engram/rendezvous/host.hpp"
#include "engram/rendezvous/secret.hpp"

namespace engram::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Handles = std::map<Rank, std::vector<FileDescriptor>>;

/// What a rank tells all others before handles move. The socket name is random: it is the proof
/// that the one who connects is of this job, for only its ranks have read this.
struct Offer {
  HostKey host;
  std::int32_t pid = 0;
  std::uint32_t num_handles = 0;
  std::array<std::int32_t, kMaxHandles> fds{};
  std::array<char, 32> socket_name{};
};

/// What a rank says when it connects to the owner of handles.
struct Request {
  std::uint32_t rank = 0;
  std::array<char, 32> socket_name{};
};

sockaddr_un abstract_address(const std::array<char, 32>& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // sun_path[0] stays 0: the abstract namespace, nothing to unlink
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<void> wait_readable(int fd, Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd, POLLIN, 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
  if (ready > 0) return {};
  return fail(ErrorCode::timed_out, ready == 0 ? "nothing came" : std::strerror(errno));
}

Result<FileDescriptor> listen_at(const std::array<char, 32>& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(name, size);
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return fail(ErrorCode::io, "UNIX socket for memory handles: ", std::strerror(errno));
  }
  return socket;
}

Result<FileDescriptor> ask(const Offer& owner, Rank me) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(owner.socket_name, size);
  const Request request{me.value, owner.socket_name};
  if (!socket.valid() ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::send(socket.get(), &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
    return fail(ErrorCode::io, "UNIX socket of process ", owner.pid, ": ", std::strerror(errno));
  }
  return socket;
}

Result<void> send_handles(int socket, std::span<const int> fds) {
  std::uint32_t count = static_cast<std::uint32_t>(fds.size());
  iovec part{&count, sizeof(count)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxHandles)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    return fail(ErrorCode::io, "sending ", fds.size(), " handles: ", std::strerror(errno));
  }
  return {};
}

Result<std::vector<FileDescriptor>> receive_handles(int socket, std::uint32_t expected,
                                                    Clock::time_point deadline) {
  if (const auto ready = wait_readable(socket, deadline); !ready) {
    return tl::unexpected<Error>(ready.error());
  }
  std::uint32_t count = 0;
  iovec part{&count, sizeof(count)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxHandles)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  std::vector<FileDescriptor> handles;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
      handles.emplace_back(fd);
    }
  }
  if (got != sizeof(count) || count != expected || handles.size() != expected) {
    return fail(ErrorCode::io, handles.size(), " of ", expected, " handles came",
                got < 0 ? std::string(": ") + std::strerror(errno) : std::string());
  }
  return handles;
}

/// Answers each of `num_peers` ranks once. Connections of others are dropped.
Result<void> serve(int listener, const Offer& offer, std::span<const int> mine,
                   std::vector<Rank> peers, Clock::time_point deadline) {
  while (!peers.empty()) {
    if (const auto ready = wait_readable(listener, deadline); !ready) {
      return within(ready.error(), "rank ", peers.front().value, " did not ask for handles");
    }
    const FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) return fail(ErrorCode::io, "accept: ", std::strerror(errno));
    Request request;
    if (!wait_readable(socket.get(), deadline) ||
        ::recv(socket.get(), &request, sizeof(request), 0) != sizeof(request) ||
        request.socket_name != offer.socket_name) {
      continue;
    }
    const auto peer = std::find(peers.begin(), peers.end(), Rank{request.rank});
    if (peer == peers.end()) continue;
    if (const auto sent = send_handles(socket.get(), mine); !sent) return sent;
    peers.erase(peer);
  }
  return {};
}

Result<Handles> over_sockets(int listener, Rank me, const std::vector<Offer>& offers,
                             std::span<const int> mine, const std::vector<Rank>& peers,
                             Clock::time_point deadline) {
  // All requests first: they wait in the listeners' queues, so no two ranks wait for each other.
  std::map<Rank, FileDescriptor> sockets;
  for (const Rank peer : peers) {
    auto socket = ask(offers[peer.value], me);
    if (!socket) return within(socket.error(), "handles of rank ", peer.value);
    sockets.emplace(peer, std::move(*socket));
  }
  if (const auto done = serve(listener, offers[me.value], mine, peers, deadline); !done) {
    return tl::unexpected<Error>(done.error());
  }
  Handles all;
  for (const Rank peer : peers) {
    auto got = receive_handles(sockets.at(peer).get(), offers[peer.value].num_handles, deadline);
    if (!got) return within(got.error(), "handles of rank ", peer.value);
    all.emplace(peer, std::move(*got));
  }
  return all;
}

Result<Handles> over_pidfd(const std::vector<Offer>& offers, const std::vector<Rank>& peers) {
  Handles all;
  for (const Rank peer : peers) {
    const Offer& offer = offers[peer.value];
    const FileDescriptor process(
        static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(offer.pid), 0u)));
    std::vector<FileDescriptor> handles;
    for (std::uint32_t i = 0; i < offer.num_handles; ++i) {
      handles.emplace_back(static_cast<int>(
          process.valid() ? ::syscall(SYS_pidfd_getfd, process.get(), offer.fds[i], 0u) : -1));
      if (!handles.back().valid()) {
        return fail(ErrorCode::io, "handle ", offer.fds[i], " of rank ", peer.value, " (process ",
                    offer.pid, ") by pidfd: ", std::strerror(errno));
      }
    }
    all.emplace(peer, std::move(handles));
  }
  return all;
}

}  // namespace

Result<Handles> exchange_handles(Rendezvous& ranks, std::span<const int> mine,
                                 const HandlePassing& how) {
  Offer offer;
  offer.host = this_host();
  offer.pid = ::getpid();
  offer.num_handles = static_cast<std::uint32_t>(mine.size());
  const std::string name = random_secret();
  std::copy_n(name.begin(), offer.socket_name.size(), offer.socket_name.begin());
  FileDescriptor listener;
  Result<void> prepared;
  if (mine.size() > kMaxHandles) {
    prepared = fail(ErrorCode::out_of_range, mine.size(), " handles, at most ", kMaxHandles);
  } else {
    std::copy(mine.begin(), mine.end(), offer.fds.begin());
    auto listening = listen_at(offer.socket_name);
    if (listening)
      listener = std::move(*listening);
    else if (how.method == HandlePassing::Method::unix_socket) {
      prepared = tl::unexpected<Error>(listening.error());
    }
  }
  if (const auto all = ranks.agree(prepared); !all) return tl::unexpected<Error>(all.error());
  const auto offers = ranks.allgather_value(offer);
  if (!offers) return tl::unexpected<Error>(offers.error());

  std::vector<Rank> peers;
  for (std::uint32_t r = 0; r < ranks.num_ranks(); ++r) {
    if (Rank{r} != ranks.rank() && (*offers)[r].host == offer.host) peers.push_back(Rank{r});
  }
  using Method = HandlePassing::Method;
  const Clock::time_point deadline = Clock::now() + how.limit;
  Result<Handles> got = fail(ErrorCode::io, "no UNIX socket");
  if (how.method != Method::pidfd && listener.valid()) {
    got = over_sockets(listener.get(), ranks.rank(), *offers, mine, peers, deadline);
  }
  if (!got && how.method != Method::unix_socket) {
    const Error first = got.error();
    got = over_pidfd(*offers, peers);
    if (!got && how.method == Method::automatic) {
      got.error().message += "; by UNIX socket: " + first.message;
    }
  }
  // Also the moment after which an owner may close its descriptors.
  return ranks.agree_on(std::move(got));
}

}  // namespace engram::rendezvous
