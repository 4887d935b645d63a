// Random fetches for GPU tests, and what they must fetch by the plainest code.
#pragma once

#include <vector>

#include "device.hpp"
#include "engram/kernels/gather_rows.hpp"

namespace engram::kernels::testing {

inline constexpr std::byte kPoison{0xa5};  ///< fills the output before each fetch

struct CaseLimits {
  std::int64_t max_tokens = 40;
  bool host_only = false;    ///< every owner's rows in host memory
  bool device_table = true;  ///< owners' pointers may stand in device memory
};

/// A fetch with all it needs, and its reference.
struct GatherCase {
  GatherRowsArgs args;
  std::vector<std::int64_t> indices;
  std::vector<std::vector<std::byte>> rows;   ///< per owner, all layers
  std::vector<std::vector<std::byte>> tails;  ///< per owner; one when replicated
  std::vector<bool> served;                   ///< per owner
  std::vector<Buffer> memory;                 ///< keeps everything alive
  Buffer fetched;

  /// What `fetched` must hold: rows, zeros for missing ones, poison where nothing is written.
  [[nodiscard]] std::vector<std::byte> expected() const;
  /// Positions whose index is out of range.
  [[nodiscard]] std::vector<std::int64_t> bad_positions() const;
  void poison();
};

/// Draws a case inside a RapidCheck property: odd row sizes, owner counts, -1 and wild indices,
/// empty fetches, several layers, split rows, owners that other paths serve.
[[nodiscard]] GatherCase draw_case(const CaseLimits& limits);

}  // namespace engram::kernels::testing
