// Registered memory: this rank's, and how each peer's counterpart is reached.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/gin_plugin/device.hpp"
#include "engram/gin_plugin/settings.hpp"
#include "mesh.hpp"

namespace engram::gin_plugin {

using RegionId = std::uint16_t;  ///< what device code calls a handle; 0 names none

/// A piece of a peer's region.
struct Segment {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::byte* mapped = nullptr;  ///< its first byte here; null: only the owner reaches it
};

/// A peer's counterpart of a region.
struct PeerRegion {
  RegionId id = 0;  ///< at the peer
  std::uint64_t size = 0;
  std::vector<Segment> segments;
  std::vector<std::unique_ptr<Mapping>> mappings;
};

struct Region {
  RegionId id = 0;
  std::byte* data = nullptr;
  std::uint64_t size = 0;
  bool plain_host = false;           ///< ordinary memory of this process: read when posted
  bool never_reset = false;          ///< holds signals that only the plugin changes
  std::vector<std::uint64_t> shadow;  ///< never_reset: the words' values; one thread uses it
  std::vector<PeerRegion> peers;     ///< [num_ranks]
};

/// The bytes [offset, offset + size) of a region at `peer`, up to the end of their segment.
struct Stretch {
  std::byte* mapped = nullptr;
  std::uint64_t size = 0;
};
/// Precondition: offset < the peer's size.
[[nodiscard]] Stretch locate(const Region& region, Rank peer, std::uint64_t offset,
                             std::uint64_t size);

/// All regions of a communicator. find() may be called by any thread, the rest by NCCL's.
class Regions {
 public:
  Regions(Device& device, Mesh& mesh, const Settings& settings)
      : device_(device), mesh_(mesh), settings_(settings) {}

  /// Collective. Errors: what the exchange or the device reports; sizes that differ between ranks
  /// are not errors, every operation is checked against its own peer's.
  [[nodiscard]] Result<Region*> add(std::byte* data, Bytes size, bool host, std::uint64_t flags);
  /// Nobody may use the region any more.
  void remove(Region* region);

  [[nodiscard]] Region* find(RegionId id) const {
    return table_[id].load(std::memory_order_acquire);
  }

 private:
  Result<PeerRegion> take_offer(Rank peer, Offer& offer, const std::vector<ExportedSegment>& own,
                                std::byte* data, std::uint64_t size);

  Device& device_;
  Mesh& mesh_;
  const Settings& settings_;
  std::array<std::atomic<Region*>, 65536> table_{};
  std::vector<std::unique_ptr<Region>> owned_;
  RegionId last_id_ = 0;
};

}  // namespace engram::gin_plugin
