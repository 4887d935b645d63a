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
#include "engram/gin_plugin/shared_memory.hpp"
#include "mesh.hpp"
#include "signalled_words.hpp"

namespace engram::gin_plugin {

/// A piece of a peer's region.
struct Segment {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::byte* mapped = nullptr;  ///< its first byte here; null: only the owner reaches it
};

/// The words of a region that only the plugin changes, kept in memory that all ranks of the host
/// share: whoever signals adds here, and the owner stores the sums where its kernels look. Device
/// memory of such a region cannot be exported, and a store does not wait behind kernels as an
/// atomic add in a kernel would.
class SignalMirror {
 public:
  SignalMirror() = default;
  SignalMirror(SharedMemory memory, std::size_t num_words)
      : memory_(std::move(memory)), num_words_(num_words) {}

  /// The shared bytes that `num_words` need: the version's line, then the words.
  [[nodiscard]] static Bytes bytes_for(std::size_t num_words) {
    return {64 + num_words * sizeof(std::uint64_t)};
  }
  [[nodiscard]] explicit operator bool() const { return num_words_ > 0; }
  [[nodiscard]] std::size_t num_words() const { return num_words_; }
  [[nodiscard]] int fd() const { return memory_.fd(); }
  /// Grows with each add().
  [[nodiscard]] std::uint64_t version() const { return word_at(0).load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t value(std::size_t i) const {
    return word_at(8 + i).load(std::memory_order_acquire);
  }
  void add(std::size_t i, std::uint64_t value) const {
    word_at(8 + i).fetch_add(value, std::memory_order_acq_rel);
    word_at(0).fetch_add(1, std::memory_order_acq_rel);
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word_at(std::size_t i) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory_.bytes().data())[i]);
  }

  SharedMemory memory_;
  std::size_t num_words_ = 0;
};

/// A peer's counterpart of a region.
struct PeerRegion {
  RegionId id = 0;  ///< at the peer
  std::uint64_t size = 0;
  std::vector<Segment> segments;
  std::vector<std::unique_ptr<Mapping>> mappings;
  SignalMirror mirror;  ///< where the region has one and the peer is on this host
};

struct Region {
  RegionId id = 0;
  std::byte* data = nullptr;
  std::uint64_t size = 0;
  bool plain_host = false;        ///< ordinary memory of this process: read when posted
  SignalMirror mirror;            ///< of a region of signals that only the plugin changes
  std::vector<PeerRegion> peers;  ///< [num_ranks]
  // The storing worker's.
  std::uint64_t stored_version = 0;
  std::vector<std::uint64_t> stored;  ///< [mirror.num_words()]
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
  /// Keeps find() and mirrored() from giving the region out; erase() follows once nobody uses it.
  void retire(Region* region);
  void erase(Region* region);

  /// Changes when mirrored() does.
  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }
  /// This rank's regions with a mirror.
  [[nodiscard]] std::vector<Region*> mirrored() const {
    const std::lock_guard lock(mutex_);
    return mirrored_;
  }

  /// A VA signal goes, or came, to that word of `owner`, which names its region so.
  void note_signal(Rank owner, RegionId id, std::uint64_t offset) const {
    const SignalledWords& words = owner == mesh_.self() ? words_ : peer_words_[owner.value];
    if (words) words.note(id, offset);
  }
  /// This rank's words that were noted, by any rank of the host.
  [[nodiscard]] const SignalledWords& signalled_words() const { return words_; }

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
  mutable std::mutex mutex_;
  std::vector<Region*> mirrored_;
  std::atomic<std::uint64_t> generation_{0};
  SignalledWords words_;                    ///< made and shared with the first region
  std::vector<SignalledWords> peer_words_;  ///< [num_ranks], empty across hosts
  RegionId last_id_ = 0;
};

}  // namespace engram::gin_plugin
