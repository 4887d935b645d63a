// A listening socket made before the ranks start, so that its port is known and cannot be lost.
#pragma once

#include <cstdint>
#include <string>

#include "engram/core/result.hpp"

namespace engram::rendezvous {

/// An open descriptor, closed with its owner.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Gives the descriptor away; the caller closes it.
  [[nodiscard]] int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

struct Listener {
  FileDescriptor socket;
  std::uint16_t port = 0;
};

/// Listens on 127.0.0.1 at a port the system picks. Errors: io.
[[nodiscard]] Result<Listener> listen_on_loopback();

}  // namespace engram::rendezvous
