// Sockets with deadlines, and the proof of belonging to the same job.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "digest.hpp"
#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/gin_plugin/file_handle.hpp"
#include "engram/gin_plugin/settings.hpp"

namespace engram::gin_plugin {

using Deadline = std::chrono::steady_clock::time_point;

/// Errors of both: io with errno's text, peer_lost at the stream's end, timed_out.
[[nodiscard]] Result<void> read_exactly(int fd, std::span<std::byte> into, Deadline deadline);
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> text, Deadline deadline,
                                     std::span<const int> fds = {});

/// Where a rank listens; travels through NCCL's bootstrap as the connect handle. 112 bytes.
struct Endpoint {
  static constexpr std::uint32_t kMagic = 0x4e494745;  // "EGIN"
  static constexpr std::uint16_t kVersion = 1;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t port = 0;     ///< host byte order
  std::uint32_t address = 0;  ///< IPv4, host byte order
  std::uint32_t reserved = 0;
  std::array<std::byte, 32> host{};   ///< equal where UNIX sockets reach: boot and net namespace
  std::array<std::byte, 32> token{};  ///< random; known to the job's ranks alone
  std::array<std::byte, 32> unix_name{};  ///< of an abstract UNIX socket
};
static_assert(sizeof(Endpoint) == 112);

/// What a connection is for.
enum class Channel : std::uint32_t { control = 1, data = 2 };

/// A connection that has proved to be `rank`'s.
struct Accepted {
  Rank rank;
  Channel channel = Channel::control;
  FileHandle socket;
};

/// Two listening sockets, one UNIX, one TCP, behind one Endpoint.
class Listener {
 public:
  /// Errors: io; invalid_argument for an address that is not this machine's; unsupported when the
  /// address leaves the host and no secret is set.
  [[nodiscard]] static Result<Listener> open(const Settings& settings);

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  /// The next connection that proves itself; others are dropped.
  [[nodiscard]] Result<Accepted> accept(const std::string& secret, Deadline deadline);

 private:
  Endpoint endpoint_;
  FileHandle unix_;
  FileHandle tcp_;
};

/// Connects to a rank's listener and proves to be `self`.
/// Errors: io, timed_out; invalid_argument when the other side does not know the secret.
[[nodiscard]] Result<FileHandle> dial(const Endpoint& to, bool use_unix, Rank self, Channel channel,
                                      const std::string& secret, Deadline deadline);

}  // namespace engram::gin_plugin
