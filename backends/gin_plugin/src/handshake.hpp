// The proof of belonging to the same job: what both sides compute, and the listener's side of it
// for many connections at once.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "digest.hpp"
#include "engram/core/index.hpp"
#include "engram/gin_plugin/file_handle.hpp"

namespace engram::gin_plugin {

using Deadline = std::chrono::steady_clock::time_point;

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

/// The dialler's first words.
struct Hello {
  std::uint32_t magic = Endpoint::kMagic;
  std::uint16_t version = Endpoint::kVersion;
  std::uint16_t reserved = 0;
  std::uint32_t rank = 0;
  std::uint32_t channel = 0;
  std::array<std::byte, 16> nonce{};
};
/// The listener's answer; the dialler's proof and one byte of welcome follow.
struct Challenge {
  std::array<std::byte, 16> nonce{};
  Digest proof{};
};

void fill_random(std::span<std::byte> bytes);
[[nodiscard]] Digest job_key(const Endpoint& endpoint, const std::string& secret);
/// `side`, 'L' or 'D', keeps a proof from being played back to its sender.
[[nodiscard]] Digest proof(const Digest& key, char side, const Hello& hello,
                           const Challenge& challenge);
void set_no_delay(int fd);

/// Told of a connection that greeted as a rank and did not prove itself.
using Remark = std::function<void(const std::string&)>;

/// Connections that have not proved themselves yet. None waits for another: each is read as its
/// bytes come, and has kHandshakeLimit for all of them.
class Lobby {
 public:
  static constexpr std::size_t kMaxUnproven = 64;
  static constexpr auto kHandshakeLimit = std::chrono::seconds(5);

  /// Takes a non-blocking socket. Beyond kMaxUnproven the oldest is closed: a rank proves itself at
  /// once, and dials again if it was the one.
  void admit(FileHandle socket);
  void add_polls(std::vector<pollfd>& entries) const;
  /// Reads what has come; the first connection that has proved itself, if one has.
  [[nodiscard]] std::optional<Accepted> serve(const Endpoint& self, const std::string& secret,
                                              const Remark& remark);
  /// What was told to a Remark last; empty when nothing was.
  [[nodiscard]] const std::string& last_remark() const { return last_remark_; }

 private:
  struct Guest {
    FileHandle socket;
    Deadline deadline;
    Hello hello;
    Challenge challenge;
    Digest answer{};
    std::size_t got = 0;  ///< bytes of hello, then of answer
  };
  enum class Step { waits, gone, failed_proof, proved };
  [[nodiscard]] static Step advance(Guest& guest, const Endpoint& self, const std::string& secret);

  std::deque<Guest> guests_;  ///< oldest first
  std::string last_remark_;
};

}  // namespace engram::gin_plugin
