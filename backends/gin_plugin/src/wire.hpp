// The messages between a requester and the owner of memory, and what is refused of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::gin_plugin {

enum class MessageKind : std::uint32_t {
  read = 1,        ///< entries; answered by read_reply
  read_reply = 2,  ///< payload: the entries' bytes one after another
  write = 3,       ///< entries, payload likewise; answered by ack
  ack = 4,
  signal = 5,  ///< one SignalEntry; not answered
  add = 6,     ///< one AddEntry; answered by ack
};

/// 32 bytes in front of each message. Numbers are little-endian, as on every machine with CUDA.
struct MessageHead {
  static constexpr std::uint32_t kMagic = 0x4d474745;  // "EGGM"
  std::uint32_t magic = kMagic;
  MessageKind kind = MessageKind::ack;
  std::uint64_t request = 0;  ///< the requester's number, sent back in the answer
  std::uint32_t count = 0;    ///< entries
  std::uint32_t reserved = 0;
  std::uint64_t payload = 0;  ///< bytes behind the entries
};
static_assert(sizeof(MessageHead) == 32);

struct CopyEntry {
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::uint16_t region = 0;  ///< the owner's id
  std::uint16_t reserved = 0;
};
static_assert(sizeof(CopyEntry) == 16);

struct SignalEntry {
  std::uint32_t instance = 0;
  std::uint32_t context = 0;
  std::uint32_t signal = 0;
  std::uint32_t reserved = 0;
  std::uint64_t value = 0;
};
static_assert(sizeof(SignalEntry) == 24);

struct AddEntry {
  std::uint64_t offset = 0;
  std::uint64_t value = 0;
  std::uint16_t region = 0;
  std::uint16_t reserved[3] = {0, 0, 0};
};
static_assert(sizeof(AddEntry) == 24);

inline constexpr std::uint64_t kMaxPayload = 1 << 20;  ///< bytes in one message, also of a reply
inline constexpr std::uint32_t kMaxEntries = 8192;

/// The bytes of entries that follow `head`; then come head.payload bytes.
/// Errors: invalid_argument for a head that no peer of this version sends.
[[nodiscard]] Result<std::size_t> check_head(const MessageHead& head);

/// The entries of a read or write. Errors: invalid_argument when their sizes do not fit the
/// message: sum = payload in a write, <= kMaxPayload in a read.
[[nodiscard]] Result<std::vector<CopyEntry>> read_entries(const MessageHead& head,
                                                          std::span<const std::byte> text);

}  // namespace engram::gin_plugin
