// Kernels that GPU tests need: NCCL's device context put to work, and a writer of rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engram/nccl/nccl_transport.hpp"

namespace engram::test {

/// Every rank puts its number into everyone's slots, by value and by put, adds to everyone's sum
/// and signals; then 40 values to the next rank and a signal behind them, summed up as soon as it
/// came.
struct GinCheck {
  nccl::DeviceHandles handles;
  std::uint32_t num_ranks = 1, self = 0;
  std::uint64_t free_offset = 0;  ///< of kGinCheckBytes zero bytes in the buffer window
  std::uint64_t limit_cycles = 0;
  std::uint64_t* result = nullptr;  ///< device, [2]: waits that failed, sum of the 40 values
};
inline constexpr std::uint64_t kGinSum = 8192, kGinPut = 16384, kGinRow = 24576;
inline constexpr std::uint64_t kGinCheckBytes = 32768;
inline constexpr std::uint32_t kGinValues = 40;
[[nodiscard]] Result<void> launch_gin_check(const GinCheck& check, cudaStream_t stream);

/// Word `word` of row `row` in `version`.
[[nodiscard]] constexpr std::uint32_t row_word(std::uint64_t row, std::uint64_t version,
                                               std::uint32_t word) {
  return static_cast<std::uint32_t>(
             (row * 0x9e3779b97f4a7c15ull + version * 0xd1b54a32d192ed03ull) >> 32) +
         word;
}

/// Rewrites rows over and over, each under its version, until *stop or `passes` are through.
struct RowWriter {
  std::byte* rows = nullptr;          ///< device, [num_rows, row_words * 4]
  std::uint64_t* versions = nullptr;  ///< device, [num_rows]
  std::uint64_t first_row = 0, num_rows = 0;
  std::uint32_t row_words = 0;
  std::uint64_t first_pass = 0, passes = 1;  ///< pass p writes version 2 p + 2
  const std::uint32_t* stop = nullptr;       ///< mapped host memory, or null
};
[[nodiscard]] Result<void> launch_row_writer(const RowWriter& writer, cudaStream_t stream);

}  // namespace engram::test
