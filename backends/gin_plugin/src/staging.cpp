#include "staging.hpp"

#include <algorithm>
#include <thread>

namespace engram::gin_plugin {

Result<std::unique_ptr<Staging>> Staging::create(Device& device, Regions& regions, Rank self) {
  auto engine = device.make_engine(EngineUse::staging);
  if (!engine) return tl::unexpected(engine.error());
  return std::unique_ptr<Staging>(new Staging(regions, self, std::move(*engine)));
}

Result<std::uint64_t> Staging::gather(std::span<const CopyEntry> entries, std::byte* buffer) {
  std::vector<Copy> copies;
  std::uint64_t size = 0;
  for (const CopyEntry& entry : entries) {
    auto src = own_memory(entry);
    if (!src) return tl::unexpected(src.error());
    copies.push_back({*src, buffer + size, entry.size, 0, 0});
    size += entry.size;
  }
  auto ok = run(copies);
  if (!ok) return tl::unexpected(ok.error());
  return size;
}

Result<void> Staging::scatter(std::span<const CopyEntry> entries, const std::byte* buffer) {
  std::vector<Copy> copies;
  for (const CopyEntry& entry : entries) {
    auto dst = own_memory(entry);
    if (!dst) return tl::unexpected(dst.error());
    copies.push_back({buffer, *dst, entry.size, 0, 0});
    buffer += entry.size;
  }
  return run(copies);
}

Result<void> Staging::add(const AddEntry& entry) {
  auto dst = own_memory({entry.offset, 8, entry.region, 0});
  if (!dst) return tl::unexpected(dst.error());
  if (entry.offset % 8 != 0) {
    return fail(ErrorCode::invalid_argument, "an add at offset ", entry.offset);
  }
  auto* word = reinterpret_cast<std::uint64_t*>(*dst);
  Region* region = regions_.find(entry.region);
  if (region->mirror) {
    region->mirror.add(entry.offset / 8, entry.value);
    return {};
  }
  regions_.note_signal(self_, entry.region, entry.offset);
  while (engine_->open().empty()) std::this_thread::yield();
  const Add add{word, entry.value};
  auto id = engine_->submit_adds(std::span(&add, 1));
  if (!id) return tl::unexpected(id.error());
  return wait_for(*id);
}

Result<void> Staging::run(std::vector<Copy>& copies) {
  constexpr std::uint32_t kPiece = 16 * 1024;  // so that many warps share a large copy
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].size <= kPiece || copies[i].src == nullptr) continue;
    Copy rest = copies[i];
    rest.src += kPiece;
    rest.dst += kPiece;
    rest.size -= kPiece;
    copies[i].size = kPiece;
    copies.push_back(rest);
  }
  for (std::size_t at = 0; at < copies.size();) {
    std::span<Copy> room = engine_->open();
    const std::size_t count = std::min(room.size(), copies.size() - at);
    require(count > 0, "the executor runs one batch at a time");
    std::copy_n(copies.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
    auto id = engine_->submit(count, {});
    if (!id) return tl::unexpected(id.error());
    auto ok = wait_for(*id);
    if (!ok) return ok;
    at += count;
  }
  return {};
}

Result<void> Staging::wait_for(BatchId batch) {
  for (;;) {
    auto done = engine_->done(batch);
    if (!done) return tl::unexpected(done.error());
    if (*done) return {};
    __builtin_ia32_pause();
  }
}

Result<std::byte*> Staging::own_memory(const CopyEntry& entry) const {
  const Region* region = regions_.find(entry.region);
  if (region == nullptr) {
    return fail(ErrorCode::not_found, "region ", entry.region, " is not registered here");
  }
  if (entry.offset > region->size || entry.size > region->size - entry.offset) {
    return fail(ErrorCode::out_of_range, entry.size, " bytes from ", entry.offset, " of region ",
                entry.region, " with ", region->size, " bytes");
  }
  return region->data + entry.offset;
}

}  // namespace engram::gin_plugin
