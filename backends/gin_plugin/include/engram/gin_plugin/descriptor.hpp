// What a GPU asks for: the 64-byte descriptor of NCCL's GPI device code, read into one Operation.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engram/core/result.hpp"

namespace engram::gin_plugin {

/// gpi_gfd_data_op, and the control operations with bit 7 set.
enum class OpCode : std::uint8_t {
  read = 0,
  write = 1,
  write_signal_add = 2,
  write_signal_increment = 3,
  write_inline = 4,
  write_inline_signal_add = 5,
  write_inline_signal_increment = 6,
  atomic_add = 7,
  peer_flush = 8,
  counter_reset = 0x80,
  counter_reset_quiet = 0x81,
  counter_writeback = 0x82,
  signal_reset = 0x83,
};

/// The op_flags bit that says "count this operation's completion on `counter`".
inline constexpr std::uint8_t kCounted = 1 << 1;

/// One descriptor, decoded. `local` and `remote` are handles the registration gave out; NCCL's own
/// names, src and dst, are swapped in a read.
struct Operation {
  OpCode code = OpCode::read;
  std::uint8_t flags = 0;
  std::uint16_t counter = 0;
  std::uint16_t signal = 0;
  std::uint16_t local = 0;
  std::uint16_t remote = 0;
  std::uint32_t peer = 0;
  std::uint32_t size = 0;           ///< bytes; 0 = no data, the handles then say nothing
  std::uint64_t local_offset = 0;   ///< bytes into the local region
  std::uint64_t remote_offset = 0;  ///< bytes into the remote region
  std::uint64_t signal_value = 0;
  std::uint64_t inline_value = 0;  ///< the data of a write_inline, or an atomic_add's operand

  friend bool operator==(const Operation&, const Operation&) = default;

  [[nodiscard]] bool counted() const { return (flags & kCounted) != 0; }
};

/// The 64 bytes as the GPU writes them: eight words, bit 0 of each being the owner bit.
using DescriptorWords = std::array<std::uint64_t, 8>;

/// Errors: invalid_argument for an operation number that no NCCL sends.
[[nodiscard]] Result<Operation> decode(const DescriptorWords& words);

/// The inverse, with `owner` in bit 0 of each word; what a GPU would write. For tests and tools.
[[nodiscard]] DescriptorWords encode(const Operation& operation, bool owner);

/// Reads a ring of descriptors in order. One thread reads; the GPU writes.
/// A slot is full when the owner bit of all its words equals bit `log_depth` of its index, so a
/// new ring must be filled with 0xFF (kEmptyByte).
class RingReader {
 public:
  static constexpr unsigned char kEmptyByte = 0xFF;

  RingReader() = default;
  /// `slots`: [1 << log_depth][8] words, 64-byte aligned, outliving the reader.
  RingReader(const std::uint64_t* slots, std::uint32_t log_depth)
      : slots_(slots), log_depth_(log_depth) {}

  /// Copies the next descriptor to `words` if it is complete. Never waits.
  [[nodiscard]] bool next(DescriptorWords& words);

  /// The same without taking it; skip() then does.
  [[nodiscard]] bool peek(DescriptorWords& words) const;
  void skip() { ++index_; }

  /// Descriptors taken so far: what the GPU's consumer index is set to.
  [[nodiscard]] std::uint64_t consumed() const { return index_; }

 private:
  const std::uint64_t* slots_ = nullptr;
  std::uint32_t log_depth_ = 0;
  std::uint64_t index_ = 0;
};

}  // namespace engram::gin_plugin
