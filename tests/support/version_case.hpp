// Rows that are written while they are read, as a value: every rank reads, and writes its share.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "engram/core/backend.hpp"
#include "engram/core/defects.hpp"

namespace engram::test {

/// Defaults are the smallest case; generators shrink towards it. Rank r alone writes the rows g
/// with g mod ranks = r, by puts through the network; all rows lie in GPU memory.
struct VersionCase {
  std::uint32_t num_rdma = 1, num_nvlink = 1;
  bool compat = false;  ///< every read through the network
  std::uint32_t rows = 1, row_words = 2;
  std::uint32_t reads = 1, updates = 1;  ///< of each rank
  std::uint32_t warps = 1, batch = 1;
  std::uint64_t seed = 1;
  [[nodiscard]] std::uint32_t num_ranks() const { return num_rdma * num_nvlink; }
};
std::ostream& operator<<(std::ostream& out, const VersionCase& c);

/// What the readers met, over all ranks.
struct VersionCounts {
  std::uint64_t again = 0;     ///< rows read another time
  std::uint64_t changing = 0;  ///< rows given up on
  std::uint64_t newer = 0;     ///< rows that came in a later version than the first
};

/// Errors: wrong_bytes naming rank, read, row and version for a row that is not, word for word, one
/// version of it; whatever the calls report.
[[nodiscard]] Result<VersionCounts> run_version_case(core::Backend& backend, const VersionCase& c,
                                                     const core::Defects& defects = {});

}  // namespace engram::test
