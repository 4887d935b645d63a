// Sockets with deadlines: a rank's listener, and the way to it.
#pragma once

#include <span>
#include <string>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/gin_plugin/file_handle.hpp"
#include "engram/gin_plugin/settings.hpp"
#include "handshake.hpp"

namespace engram::gin_plugin {

/// Errors of both: io with errno's text, peer_lost at the stream's end, timed_out.
[[nodiscard]] Result<void> read_exactly(int fd, std::span<std::byte> into, Deadline deadline);
[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> text, Deadline deadline,
                                     std::span<const int> fds = {});

/// Two listening sockets, one UNIX, one TCP, behind one Endpoint.
class Listener {
 public:
  /// Errors: io; invalid_argument for an address that is not this machine's; unsupported when the
  /// address leaves the host and no secret is set.
  [[nodiscard]] static Result<Listener> open(const Settings& settings);

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  /// The next connection that proves itself; others are dropped, and none of them delays it.
  /// Errors: timed_out, with the last remark.
  [[nodiscard]] Result<Accepted> accept(const std::string& secret, Deadline deadline,
                                        const Remark& remark);

 private:
  Endpoint endpoint_;
  FileHandle unix_;
  FileHandle tcp_;
  Lobby lobby_;
};

/// Connects to a rank's listener and proves to be `self`.
/// Errors: io, timed_out; invalid_argument when the other side does not know the secret; peer_lost
/// when it hung up, as a listener does that has too many strangers at its door: dial again.
[[nodiscard]] Result<FileHandle> dial(const Endpoint& to, bool use_unix, Rank self, Channel channel,
                                      const std::string& secret, Deadline deadline);

}  // namespace engram::gin_plugin
