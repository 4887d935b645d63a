#include "engram/rendezvous/listener.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace engram::rendezvous {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<Listener> listen_on_loopback() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() || ::bind(socket.get(), raw, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), raw, &size) != 0) {
    return fail(ErrorCode::io, "cannot listen on 127.0.0.1: ", std::strerror(errno));
  }
  return Listener{std::move(socket), ntohs(address.sin_port)};
}

}  // namespace engram::rendezvous
