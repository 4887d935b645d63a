#include "region.hpp"

#include <algorithm>
#include <cstring>

#include "engram/gin_plugin/abi.hpp"

namespace engram::gin_plugin {
namespace {

/// What a rank tells about its region: a RegionOffer, then one SegmentOffer for each segment.
struct RegionOffer {
  std::uint64_t size = 0;
  std::uint32_t id = 0;
  std::uint32_t num_segments = 0;
  std::uint64_t mirror_words = 0;  ///< > 0: the next file from the message's end is the mirror
  std::uint64_t with_words = 0;    ///< 1: the last file holds the rank's SignalledWords
};
struct SegmentOffer {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t allocation_offset = 0;
  std::uint64_t allocation_size = 0;
  std::uint32_t exported = 0;  ///< 1: the next file of the message is its handle
  std::uint32_t on_host = 0;
};
constexpr std::uint32_t kMaxSegments = 4096;

template <class T>
void append(std::vector<std::byte>& text, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  text.insert(text.end(), bytes.begin(), bytes.end());
}

}  // namespace

Stretch locate(const Region& region, Rank peer, std::uint64_t offset, std::uint64_t size) {
  const PeerRegion& there = region.peers[peer.value];
  for (const Segment& segment : there.segments) {
    if (offset - segment.offset < segment.size) {
      const std::uint64_t inside = offset - segment.offset;
      return {segment.mapped != nullptr ? segment.mapped + inside : nullptr,
              std::min(size, segment.size - inside)};
    }
  }
  return {nullptr, size};
}

Result<Region*> Regions::add(std::byte* data, Bytes size, bool host, std::uint64_t flags) {
  auto region = std::make_unique<Region>();
  region->data = data;
  region->size = size.count;
  for (int tries = 0; tries < 65535; ++tries) {
    last_id_ = static_cast<RegionId>(last_id_ == 65535 ? 1 : last_id_ + 1);
    if (find(last_id_) == nullptr) break;
  }
  if (find(last_id_) != nullptr) {
    return fail(ErrorCode::unsupported, "65535 regions are registered; device handles have 16 bit");
  }
  region->id = last_id_;

  auto segments = device_.export_region(data, size);
  if (!segments) return tl::unexpected(segments.error());
  region->plain_host =
      host && std::none_of(segments->begin(), segments->end(),
                           [](const ExportedSegment& s) { return s.on_host || bool(s.handle); });
  std::vector<std::byte> payload;
  std::vector<int> fds;
  const bool mirrored = (flags & abi::kRegionSignalNeverReset) != 0 && size.count >= 8;
  const std::size_t words = mirrored ? size.count / 8 : 0;
  if (mirrored) {
    auto memory = SharedMemory::create(SignalMirror::bytes_for(words));
    if (!memory) return tl::unexpected(memory.error());
    region->mirror = SignalMirror(std::move(*memory), words);
    region->stored.resize(words);
  }
  const bool first = !words_;
  if (first) {
    auto memory = SharedMemory::create(SignalledWords::size());
    if (!memory) return tl::unexpected(memory.error());
    words_ = SignalledWords(std::move(*memory));
    peer_words_.resize(mesh_.num_ranks());
  }
  append(payload, RegionOffer{size.count, region->id, static_cast<std::uint32_t>(segments->size()),
                              words, first ? 1u : 0u});
  for (const ExportedSegment& s : *segments) {
    append(payload, SegmentOffer{s.offset, s.size, s.allocation_offset, s.allocation_size,
                                 s.handle ? 1u : 0u, s.on_host ? 1u : 0u});
    if (s.handle) fds.push_back(s.handle.get());
  }
  if (mirrored) fds.push_back(region->mirror.fd());
  if (first) fds.push_back(words_.fd());
  auto offers = mesh_.exchange(payload, fds);
  if (!offers) return tl::unexpected(offers.error());
  for (std::uint32_t r = 0; r < offers->size(); ++r) {
    if (Rank{r} == mesh_.self()) {
      region->peers.push_back({region->id, size.count, {{0, size.count, data}}, {}, {}});
      continue;
    }
    auto peer = take_offer(Rank{r}, (*offers)[r], *segments, data, size.count);
    if (!peer) return within(peer.error(), "region ", region->id, " of rank ", r);
    region->peers.push_back(std::move(*peer));
  }
  Region* raw = region.get();
  table_[raw->id].store(raw, std::memory_order_release);
  if (mirrored) {
    const std::lock_guard lock(mutex_);
    mirrored_.push_back(raw);
    generation_.fetch_add(1, std::memory_order_release);
  }
  owned_.push_back(std::move(region));
  // Nobody asks an owner for a region before it can find it.
  auto all = mesh_.exchange({}, {});
  if (!all) {
    retire(raw);
    erase(raw);
    return tl::unexpected(all.error());
  }
  return raw;
}

Result<PeerRegion> Regions::take_offer(Rank peer, Offer& offer,
                                       const std::vector<ExportedSegment>& own, std::byte* data,
                                       std::uint64_t size) {
  RegionOffer head;
  if (offer.payload.size() < sizeof head) {
    return fail(ErrorCode::invalid_argument, "its offer has ", offer.payload.size(), " bytes");
  }
  std::memcpy(&head, offer.payload.data(), sizeof head);
  if (head.num_segments > kMaxSegments || head.id == 0 || head.id > 65535 ||
      head.mirror_words > head.size / 8 ||
      offer.payload.size() != sizeof head + head.num_segments * sizeof(SegmentOffer)) {
    return fail(ErrorCode::invalid_argument, "its offer names id ", head.id, " and ",
                head.num_segments, " segments in ", offer.payload.size(), " bytes");
  }
  PeerRegion there;
  there.id = static_cast<RegionId>(head.id);
  there.size = head.size;
  if (head.with_words != 0 && !offer.files.empty()) {
    auto memory = SharedMemory::map(std::move(offer.files.back()), SignalledWords::size());
    if (!memory) return tl::unexpected(memory.error());
    peer_words_[peer.value] = SignalledWords(std::move(*memory));
    offer.files.pop_back();
  }
  if (head.mirror_words > 0 && !offer.files.empty()) {
    auto memory = SharedMemory::map(std::move(offer.files.back()),
                                    SignalMirror::bytes_for(head.mirror_words));
    if (!memory) return tl::unexpected(memory.error());
    there.mirror = SignalMirror(std::move(*memory), head.mirror_words);
    offer.files.pop_back();
  }
  std::size_t next_file = 0;
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < head.num_segments; ++i) {
    SegmentOffer told;
    std::memcpy(&told, offer.payload.data() + sizeof head + i * sizeof told, sizeof told);
    const bool leaves_allocation =
        told.exported != 0 && (told.allocation_offset > told.allocation_size ||
                               told.size > told.allocation_size - told.allocation_offset);
    if (told.offset != end || told.size == 0 || told.size > head.size - end || leaves_allocation) {
      return fail(ErrorCode::invalid_argument, "segment ", i, " covers ", told.size, " bytes from ",
                  told.offset, " of ", head.size);
    }
    end += told.size;
    Segment segment{told.offset, told.size, nullptr};
    if (told.exported != 0 && next_file < offer.files.size()) {
      ExportedSegment exported;
      exported.offset = told.offset;
      exported.size = told.size;
      exported.allocation_offset = told.allocation_offset;
      exported.allocation_size = told.allocation_size;
      exported.on_host = told.on_host != 0;
      exported.handle = std::move(offer.files[next_file++]);
      auto mapping = device_.map(exported);
      if (!mapping) return tl::unexpected(mapping.error());
      segment.mapped = (*mapping)->data();
      there.mappings.push_back(std::move(*mapping));
    } else if (told.on_host != 0 && settings_.reuse_host_mappings && mesh_.same_host(peer) &&
               i < own.size() && own[i].on_host && own[i].offset == told.offset &&
               own[i].size == told.size && head.size == size) {
      segment.mapped = data + told.offset;
    }
    there.segments.push_back(segment);
  }
  if (end != head.size) {
    return fail(ErrorCode::invalid_argument, "its segments cover ", end, " of ", head.size,
                " bytes");
  }
  return there;
}

void Regions::retire(Region* region) {
  table_[region->id].store(nullptr, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  std::erase(mirrored_, region);
  generation_.fetch_add(1, std::memory_order_release);
}

void Regions::erase(Region* region) {
  std::erase_if(owned_, [&](const auto& r) { return r.get() == region; });
}

}  // namespace engram::gin_plugin
