// What host and device share of a batch: control words in pinned memory, counts in device memory.
#pragma once

#include <cstdint>

namespace engram::gin_plugin {

/// One batch's control words, pinned; each on a line of its own since either side polls the other.
///
/// A kernel that waits behind the application's can be revoked: it writes `started`, fences and
/// reads `revoked`; the host writes `revoked`, fences and reads `started`. At least one of them
/// sees the other's word, so no copy is done both by a late kernel and by the batch's second run
/// after that has been reported.
struct BatchControl {
  alignas(64) std::uint32_t started;      ///< device: a block has begun
  alignas(64) std::uint32_t revoked;      ///< host: blocks that have not begun must not copy
  alignas(64) std::uint64_t kernel_done;  ///< device: 2 * batch id, + 1 if a block held back
  alignas(64) std::uint64_t copies_done;  ///< copy engine: batch id
};

/// One batch's counts, in device memory; the last block resets them.
struct BatchTally {
  std::uint32_t blocks_done;
  std::uint32_t blocks_held_back;
};

inline constexpr unsigned kCopyThreads = 128;
inline constexpr unsigned kCopiesPerWarp = 16;
inline constexpr unsigned kCopiesPerBlock = kCopyThreads / 32 * kCopiesPerWarp;

}  // namespace engram::gin_plugin
