#include "wire.hpp"

#include <cstring>

namespace engram::gin_plugin {

Result<std::size_t> check_head(const MessageHead& head) {
  auto refuse = [&](const char* why) {
    return fail(ErrorCode::invalid_argument, "message of kind ",
                static_cast<std::uint32_t>(head.kind), " with ", head.count, " entries and ",
                head.payload, " bytes refused: ", why);
  };
  if (head.magic != MessageHead::kMagic) return refuse("wrong magic number");
  if (head.payload > kMaxPayload) return refuse("payload too large");
  if (head.count > kMaxEntries) return refuse("too many entries");
  switch (head.kind) {
    case MessageKind::read:
      if (head.count == 0 || head.payload != 0) return refuse("a read has entries alone");
      return head.count * sizeof(CopyEntry);
    case MessageKind::write:
      if (head.count == 0) return refuse("a write has entries");
      return head.count * sizeof(CopyEntry);
    case MessageKind::read_reply:
      if (head.count != 0) return refuse("an answer has no entries");
      return std::size_t{0};
    case MessageKind::ack:
      if (head.count != 0 || head.payload != 0) return refuse("an ack has a head alone");
      return std::size_t{0};
    case MessageKind::signal:
      if (head.count != 1 || head.payload != 0) return refuse("one signal a message");
      return sizeof(SignalEntry);
    case MessageKind::add:
      if (head.count != 1 || head.payload != 0) return refuse("one add a message");
      return sizeof(AddEntry);
  }
  return refuse("unknown kind");
}

Result<std::vector<CopyEntry>> read_entries(const MessageHead& head,
                                            std::span<const std::byte> text) {
  std::vector<CopyEntry> entries(head.count);
  if (text.size() != head.count * sizeof(CopyEntry)) {
    return fail(ErrorCode::invalid_argument, head.count, " entries in ", text.size(), " bytes");
  }
  if (!text.empty()) std::memcpy(entries.data(), text.data(), text.size());
  std::uint64_t sum = 0;
  for (const CopyEntry& entry : entries) sum += entry.size;
  const bool fits = head.kind == MessageKind::write ? sum == head.payload : sum <= kMaxPayload;
  if (!fits) {
    return fail(ErrorCode::invalid_argument, head.count, " entries of ", sum,
                " bytes in a message with ", head.payload);
  }
  return entries;
}

}  // namespace engram::gin_plugin
