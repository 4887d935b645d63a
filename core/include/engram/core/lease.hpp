// Who writes where: fetches in flight hold leases on their receive regions, and leases never
// overlap.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/core/window_layout.hpp"

namespace engram::core {

using LeaseId = std::uint64_t;

/// The regions of one rank's GPU buffer that are in use.
class LeaseBook {
 public:
  explicit LeaseBook(Bytes capacity) : capacity_(capacity) {}

  /// Errors: out_of_range when the region ends past the buffer; invalid_argument when it overlaps
  /// a held lease, naming both and the holder.
  [[nodiscard]] Result<LeaseId> take(Region region, std::string holder);
  /// The first gap of `size` bytes at a multiple of `alignment`.
  /// Errors: out_of_range when no gap is large enough, naming the largest one.
  [[nodiscard]] Result<LeaseId> take_any(Bytes size, Bytes alignment, std::string holder);
  [[nodiscard]] Region region(LeaseId lease) const;
  /// Precondition: `lease` is held.
  void give_back(LeaseId lease);
  [[nodiscard]] std::size_t num_held() const { return held_.size(); }

 private:
  struct Held {
    Region region;
    std::string holder;
  };
  Bytes capacity_;
  LeaseId next_ = 1;
  std::map<LeaseId, Held> held_;
};

}  // namespace engram::core
