// The bytes on the socket: a 24-byte header, then a body whose length the receiver limits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::rendezvous {

enum class FrameKind : std::uint16_t {
  hello = 1,    ///< client: who it is
  welcome = 2,  ///< server: all ranks have joined
  refused = 3,  ///< server: an Error; the connection ends
  allgather = 4,
  barrier = 5,
  broadcast = 6,
  agree = 7,
  result = 8,     ///< server: an operation's outcome
  failure = 9,    ///< server: this operation failed (agree), the session goes on
  poisoned = 10,  ///< server: the session is over, for the Error in the body
  goodbye = 11,   ///< client: leaves in order
};
[[nodiscard]] std::string_view name_of(FrameKind kind);

inline constexpr std::size_t kHeaderBytes = 24;
/// A hello holds a job id, a secret and a host name, each at most 1 KiB.
inline constexpr Bytes kMaxHelloBytes{4096};
/// Error texts are cut here, so that a failure always fits.
inline constexpr std::size_t kMaxErrorText = 16 * 1024;

struct Header {
  FrameKind kind = FrameKind::hello;
  std::uint64_t sequence = 0;
  std::uint64_t body_bytes = 0;
};

using Body = std::vector<std::byte>;

/// Header and body as sent.
[[nodiscard]] Body encode(FrameKind kind, std::uint64_t sequence, std::span<const std::byte> body);
/// Errors: invalid_argument when this is no frame of this protocol; out_of_range past `max_body`.
[[nodiscard]] Result<Header> decode(std::span<const std::byte, kHeaderBytes> raw, Bytes max_body);

/// Little-endian numbers and length-prefixed bytes.
class Writer {
 public:
  void number(std::uint64_t value, std::size_t num_bytes);
  void bytes(std::span<const std::byte> data);
  void text(std::string_view data);
  [[nodiscard]] Body take() { return std::move(out_); }

 private:
  Body out_;
};

/// Reads what Writer wrote; every call checks what is left. Errors: out_of_range.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  [[nodiscard]] Result<std::uint64_t> number(std::size_t num_bytes);
  [[nodiscard]] Result<std::span<const std::byte>> bytes();
  [[nodiscard]] Result<std::string> text();
  [[nodiscard]] bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> in_;
};

struct Hello {
  Rank rank;
  std::uint32_t num_ranks = 0;
  std::string job_id, secret, host;
};
[[nodiscard]] Body encode_hello(const Hello& hello);
[[nodiscard]] Result<Hello> decode_hello(std::span<const std::byte> body);

[[nodiscard]] Body encode_error(const Error& error);
/// The error in `body`, or one that says the body is broken.
[[nodiscard]] Error decode_error(std::span<const std::byte> body);

}  // namespace engram::rendezvous
