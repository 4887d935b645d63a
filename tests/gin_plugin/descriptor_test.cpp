// The 64 bytes that a GPU writes, and the ring they come in.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <vector>

#include "engram/gin_plugin/abi.hpp"
#include "engram/gin_plugin/descriptor.hpp"
#ifdef ENGRAM_TEST_NCCL
#include <nccl_device/gin/gpi/gin_gpi_device_host_common.h>
#endif

namespace engram::gin_plugin {
namespace {

rc::Gen<Operation> operations() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(0, 9), rc::gen::arbitrary<std::uint16_t>(),
                     rc::gen::arbitrary<std::uint16_t>(), rc::gen::arbitrary<std::uint32_t>(),
                     rc::gen::arbitrary<std::uint64_t>(), rc::gen::arbitrary<std::uint64_t>(),
                     rc::gen::arbitrary<std::uint8_t>()),
      [](const auto& t) {
        const auto [code, a, b, c, x, y, flags] = t;
        Operation op;
        op.code = static_cast<OpCode>(code);
        op.flags = flags;
        op.counter = a;
        op.signal = b;
        op.peer = c >> 1;
        op.size = static_cast<std::uint32_t>(x);
        if (op.code == OpCode::peer_flush) return op;
        op.remote = b;
        op.remote_offset = x >> 1;
        op.signal_value = y;
        const bool value = code == 7 || (code >= 4 && code <= 6);
        if (value) {
          op.inline_value = x;
        } else {
          op.local = a;
          op.local_offset = y >> 1;
        }
        return op;
      });
}

RC_GTEST_PROP(Descriptor, DecodesWhatWasEncoded, ()) {
  const Operation op = *operations();
  const bool owner = *rc::gen::arbitrary<bool>();
  const auto decoded = decode(encode(op, owner));
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == op);
}

RC_GTEST_PROP(Descriptor, AnyWordsAreAnOperationOrAnError, ()) {
  DescriptorWords words;
  for (auto& word : words) word = *rc::gen::arbitrary<std::uint64_t>();
  const auto decoded = decode(words);
  const auto code = words[0] >> 16 & 0xff;
  RC_ASSERT(decoded.has_value() == (code <= 8 || (code >= 0x80 && code <= 0x83)));
}

// Against a reader that is told which slots are full: descriptors come in order, none before its
// last word, through many turns of the ring.
RC_GTEST_PROP(Ring, GivesEachDescriptorOnceAndInOrder, ()) {
  const auto log_depth = *rc::gen::inRange<std::uint32_t>(0, 5);
  const std::size_t depth = std::size_t{1} << log_depth;
  std::vector<std::uint64_t> slots(depth * 8, ~std::uint64_t{0});
  RingReader reader(slots.data(), log_depth);
  std::uint64_t written = 0;
  DescriptorWords words;
  const auto steps = *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>());
  for (const bool write : steps) {
    if (write && written - reader.consumed() < depth) {
      Operation op;
      op.size = static_cast<std::uint32_t>(written);
      const auto text = encode(op, (written >> log_depth & 1) != 0);
      const auto missing = *rc::gen::inRange<std::size_t>(0, 8);
      std::uint64_t* slot = slots.data() + (written % depth) * 8;
      for (std::size_t i = 0; i < 8; ++i) {
        if (i != missing) slot[i] = text[i];
      }
      if (written == reader.consumed()) RC_ASSERT(!reader.next(words));
      slot[missing] = text[missing];
      ++written;
    } else if (reader.consumed() < written) {
      const auto expected = reader.consumed();
      RC_ASSERT(reader.next(words));
      RC_ASSERT(decode(words)->size == expected);
    } else {
      RC_ASSERT(!reader.next(words));
    }
  }
}

#ifdef ENGRAM_TEST_NCCL
// NCCL's own header lays the same words out.
TEST(Descriptor, MatchesNcclsHeader) {
  static_assert(sizeof(abi::Channel) == sizeof(gpi_gpu_channel_t));
  static_assert(offsetof(abi::Channel, signals) == offsetof(gpi_gpu_channel_t, gpu_signal_ptr_));
  static_assert(offsetof(abi::Channel, ring) == offsetof(gpi_gpu_channel_t, queue_.gpu_memic_ptr));
  static_assert(offsetof(abi::Channel, produced) == offsetof(gpi_gpu_channel_t, queue_.pi_));
  static_assert(offsetof(abi::Channel, consumed) == offsetof(gpi_gpu_channel_t, queue_.ci_));
  static_assert(offsetof(abi::Channel, log_depth) == offsetof(gpi_gpu_channel_t, queue_.log_depth));
  static_assert(sizeof(abi::Counter) == sizeof(gpi_counter_t));
  static_assert(sizeof(abi::Signal) == sizeof(gpi_signal_t));
  static_assert(NCCL_GIN_GPI_VERSION == abi::kGpiVersion);
  gpi_gfd_t theirs{};
  theirs.segments[GPI_GFD_SEG_HEADER].header.op = GPI_GFD_DATA_OP_WRITE_SIGNAL_ADD;
  theirs.segments[GPI_GFD_SEG_HEADER].header.op_flags = GPI_GFD_DATA_OP_WITH_COUNTER_COUNTED;
  theirs.segments[GPI_GFD_SEG_HEADER].header.counter = 7;
  theirs.segments[GPI_GFD_SEG_HEADER].header.signal = 8;
  theirs.segments[GPI_GFD_DATA_DST].dst.pe = 9;
  theirs.segments[GPI_GFD_DATA_DST].dst.size = 10;
  theirs.segments[GPI_GFD_DATA_DST_MEM_HANDLE].dst_handle.handle = 11;
  theirs.segments[GPI_GFD_DATA_DST_MEM_HANDLE].dst_handle.signal_value_low = 12;
  theirs.segments[GPI_GFD_DATA_SRC_MEM_HANDLE].src_handle.handle = 13;
  theirs.segments[GPI_GFD_DATA_SRC_MEM_HANDLE].src_handle.signal_value_high = 14;
  theirs.segments[GPI_GFD_DATA_DST_MEM_HANDLE_OFFSET].handle_offset.offset = 15;
  theirs.segments[GPI_GFD_DATA_SRC_MEM_HANDLE_OFFSET].handle_offset.offset = 16;
  DescriptorWords words;
  std::memcpy(words.data(), &theirs, sizeof theirs);
  const auto op = decode(words);
  ASSERT_TRUE(op.has_value());
  EXPECT_EQ(op->code, OpCode::write_signal_add);
  EXPECT_TRUE(op->counted());
  EXPECT_EQ(op->counter, 7);
  EXPECT_EQ(op->signal, 8);
  EXPECT_EQ(op->peer, 9u);
  EXPECT_EQ(op->size, 10u);
  EXPECT_EQ(op->remote, 11);
  EXPECT_EQ(op->local, 13);
  EXPECT_EQ(op->signal_value, (std::uint64_t{14} << 32) + 12);
  EXPECT_EQ(op->remote_offset, 15u);
  EXPECT_EQ(op->local_offset, 16u);
}
#endif

}  // namespace
}  // namespace engram::gin_plugin
