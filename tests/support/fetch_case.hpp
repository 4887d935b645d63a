// A whole fetch run as a value: what properties generate, shrink and print.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/core/defects.hpp"
#include "engram/core/engram_table.hpp"

namespace engram::test {

enum class Indices : std::uint8_t { uniform, some_missing, all_missing, hot_owner, one_rank_only };

struct LayerCase {
  std::uint32_t rows = 1;       ///< over all ranks
  std::uint32_t row_words = 1;  ///< of 4 bytes
};

/// Defaults are the smallest case; generators shrink towards it.
struct FetchCase {
  std::uint32_t num_rdma = 1, num_nvlink = 1;
  bool hybrid = false, gpu_storage = false, compat = false, older_sizing = false;
  std::vector<LayerCase> layers{1};
  std::uint32_t tokens = 1, entries = 1;
  Indices indices = Indices::uniform;
  std::uint32_t qps = 1;
  std::uint32_t depth_log2 = 10;
  std::uint32_t flush_depth = 768;  ///< capped by the depth
  std::uint32_t reads_in_flight = 16;
  std::uint64_t first_count = 0;  ///< of every QP's request counter
  bool flush_rings = false;
  std::uint32_t fetches_in_flight = 1, rounds = 1;
  std::uint64_t seed = 1;  ///< of indices, of the wait order and of the backend's schedule

  [[nodiscard]] Result<core::RankGrid> grid() const;
  [[nodiscard]] std::uint32_t num_ranks() const { return num_rdma * num_nvlink; }
  [[nodiscard]] core::Placement placement() const {
    return gpu_storage ? core::Placement::gpu : core::Placement::host;
  }
  /// What `rank` asks for in fetch `n`: [layers, tokens, entries].
  [[nodiscard]] std::vector<std::int64_t> indices_of(Rank rank, std::uint32_t n) const;
};

/// Prints as a scenario: the seed, then every field.
std::ostream& operator<<(std::ostream& out, const FetchCase& c);

/// Writes the table, runs `rounds` x `fetches_in_flight` fetches on every rank, waits for their
/// layers in a shuffled order, and compares every byte with core::RowPattern.
/// Errors: wrong_bytes naming rank, layer, token and slot; whatever the calls report.
[[nodiscard]] Result<core::BackendStats> run_case(core::Backend& backend, const FetchCase& c,
                                                  const core::Defects& defects = {});

}  // namespace engram::test
