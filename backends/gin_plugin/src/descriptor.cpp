#include "engram/gin_plugin/descriptor.hpp"

#include <atomic>

namespace engram::gin_plugin {
namespace {

// Word numbers, gpi_gfd_segment_id.
enum Word : std::size_t {
  kHeader = 0,
  kPeerSize = 1,
  kDstHandle = 2,
  kSrcHandle = 3,
  kDstOffset = 4,
  kSrcOffset = 5,
  kInlineLow = 6,
  kInlineHigh = 7,
};

constexpr std::uint64_t bits(std::uint64_t word, unsigned from, unsigned count) {
  return (word >> from) & ((std::uint64_t{1} << count) - 1);
}

bool known(std::uint8_t code) { return code <= 8 || (code >= 0x80 && code <= 0x83); }

}  // namespace

Result<Operation> decode(const DescriptorWords& words) {
  const auto code = static_cast<std::uint8_t>(bits(words[kHeader], 16, 8));
  if (!known(code)) {
    return fail(ErrorCode::invalid_argument, "descriptor with unknown operation ", int{code});
  }
  Operation op;
  op.code = static_cast<OpCode>(code);
  op.flags = static_cast<std::uint8_t>(bits(words[kHeader], 24, 8));
  op.counter = static_cast<std::uint16_t>(bits(words[kHeader], 32, 16));
  op.signal = static_cast<std::uint16_t>(bits(words[kHeader], 48, 16));
  if (code >= 0x80) return op;  // device code leaves the other words of a control unset
  op.peer = static_cast<std::uint32_t>(bits(words[kPeerSize], 1, 31));
  op.size = static_cast<std::uint32_t>(words[kPeerSize] >> 32);
  if (op.code == OpCode::peer_flush) return op;
  op.remote = static_cast<std::uint16_t>(bits(words[kDstHandle], 16, 16));
  op.remote_offset = words[kDstOffset] >> 1;
  op.signal_value = (words[kSrcHandle] >> 32 << 32) | (words[kDstHandle] >> 32);
  const bool carries_value =
      op.code == OpCode::atomic_add ||
      (op.code >= OpCode::write_inline && op.code <= OpCode::write_inline_signal_increment);
  if (carries_value) {
    op.inline_value = (words[kInlineHigh] >> 32 << 32) | (words[kInlineLow] >> 32);
  } else {
    op.local = static_cast<std::uint16_t>(bits(words[kSrcHandle], 16, 16));
    op.local_offset = words[kSrcOffset] >> 1;
  }
  return op;
}

DescriptorWords encode(const Operation& op, bool owner) {
  DescriptorWords words{};
  words[kHeader] = std::uint64_t{static_cast<std::uint8_t>(op.code)} << 16 |
                   std::uint64_t{op.flags} << 24 | std::uint64_t{op.counter} << 32 |
                   std::uint64_t{op.signal} << 48;
  words[kPeerSize] = std::uint64_t{op.peer} << 1 | std::uint64_t{op.size} << 32;
  words[kDstHandle] = std::uint64_t{op.remote} << 16 | op.signal_value << 32;
  words[kSrcHandle] = std::uint64_t{op.local} << 16 | (op.signal_value >> 32 << 32);
  words[kDstOffset] = op.remote_offset << 1;
  words[kSrcOffset] = op.local_offset << 1;
  words[kInlineLow] = op.inline_value << 32;
  words[kInlineHigh] = op.inline_value >> 32 << 32;
  for (auto& word : words) word |= owner ? 1 : 0;
  return words;
}

bool RingReader::next(DescriptorWords& words) {
  if (!peek(words)) return false;
  skip();
  return true;
}

bool RingReader::peek(DescriptorWords& words) const {
  const std::uint64_t mask = (std::uint64_t{1} << log_depth_) - 1;
  const std::uint64_t owner = (index_ >> log_depth_) & 1;
  const std::uint64_t* slot = slots_ + (index_ & mask) * 8;
  // Each slot is a cache line that the device wrote: fetch a later one while this one is read.
  constexpr std::uint64_t kAhead = 8;
  __builtin_prefetch(slots_ + ((index_ + kAhead) & mask) * 8);
  std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = std::atomic_ref<const std::uint64_t>(slot[i]).load(std::memory_order_acquire);
    all &= words[i];
    any |= words[i];
  }
  return (owner == 1 ? all & 1 : any & 1) == owner;
}

}  // namespace engram::gin_plugin
