// Kernels the benchmark needs beside those it measures.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engram/core/result.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::bench {

/// Word w of a table holds a hash of first_word + w: every row's bytes are known by its place.
[[nodiscard]] Result<void> launch_fill(std::uint32_t* table, std::uint64_t words,
                                       std::uint64_t first_word, cudaStream_t stream);

/// Where launch_fill's words of a fetch come from.
struct ExpectedWords {
  std::uint64_t first_word[kernels::kInlineOwners] = {};  ///< per owner
  std::uint64_t tail_first_word = 0;                      ///< of replicated tails, or of owner 0's
};

/// Adds to *wrong the bytes of args.fetched that differ from the rows asked for.
/// Plain division, one thread a word: shares no code with the gather.
[[nodiscard]] Result<void> launch_count_wrong(const kernels::GatherRowsArgs& args,
                                              const ExpectedWords& expected,
                                              unsigned long long* wrong, cudaStream_t stream);

/// Contiguous copy by SMs, 16 bytes a load: one a thread, or with sm_limit > 0 eight a thread on
/// that many blocks of 1024. The limit of a gather that reads by SMs.
[[nodiscard]] Result<void> launch_contiguous(const std::byte* from, std::byte* to,
                                             std::uint64_t bytes, int sm_limit,
                                             cudaStream_t stream);

/// Holds its stream until *flag (mapped host memory) is not 0, at most 10 s.
[[nodiscard]] Result<void> launch_gate(const std::uint32_t* flag, cudaStream_t stream);

/// Computation of `rounds` dependent multiply-adds in each of `blocks` blocks of 512 threads.
[[nodiscard]] Result<void> launch_compute(int blocks, int rounds, float* sink, cudaStream_t stream);

}  // namespace engram::bench
