#include "engram/host/memory.hpp"

#include "engram/host/host_gin.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace engram::host {

Result<Mapping> Mapping::create(Bytes size) {
  Mapping mapping;
  if (size.count == 0) return mapping;
  void* data = ::mmap(nullptr, size.count, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::io, "cannot map ", size.count, " bytes: ", std::strerror(errno));
  }
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size;
  return mapping;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_.count);
}
Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, {})) {}
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<void> Memory::open(Rank rank, const core::WindowLayout& layout,
                          const std::optional<core::SegmentFunction>& segment) {
  if (layout_) {
    if (layout.storage_window_bytes() == layout_->storage_window_bytes() &&
        layout.buffer_window_bytes() == layout_->buffer_window_bytes() &&
        layout.kind() == layout_->kind()) {
      return {};
    }
    return fail(ErrorCode::invalid_argument, "rank ", rank.value, " opens windows of ",
                layout.buffer_window_bytes().count, " + ", layout.storage_window_bytes().count,
                " bytes, others of ", layout_->buffer_window_bytes().count, " + ",
                layout_->storage_window_bytes().count, "; windows are symmetric");
  }
  constexpr Bytes kMost{std::uint64_t{1} << PackedPointer::kOffsetBits};
  if (layout.storage_window_bytes() > kMost || layout.buffer_window_bytes() > kMost) {
    return fail(ErrorCode::out_of_range, "windows of ", layout.buffer_window_bytes().count, " + ",
                layout.storage_window_bytes().count, " bytes; host backends address ", kMost.count,
                " bytes a window");
  }
  for (std::uint32_t r = 0; r < grid_.num_ranks(); ++r) {
    // Without kept buffers only the workspace exists: rows are checked as they arrive.
    auto buffer =
        Mapping::create(keep_buffers_ ? layout.buffer_window_bytes() : layout.workspace().end());
    if (!buffer) return within(buffer.error(), "buffer window of rank ", r);
    buffers_.push_back(std::move(*buffer));
    if (segment) continue;
    auto own = Mapping::create(layout.stride());
    if (!own) return within(own.error(), "storage segment of rank ", r);
    segments_.push_back(std::move(*own));
  }
  segment_ = segment;
  layout_ = layout;
  return {};
}

bool Memory::contains(Window window, std::uint64_t offset, std::uint64_t bytes) const {
  if (window == Window::buffer) {
    const std::uint64_t size = layout_->buffer_window_bytes().count;
    return bytes <= size && offset <= size - bytes;
  }
  const std::uint64_t size = layout_->storage_window_bytes().count;
  const std::uint64_t stride = layout_->stride().count;
  if (bytes > size || offset > size - bytes) return false;
  return bytes == 0 || offset / stride == (offset + bytes - 1) / stride;
}

Rank Memory::owner(Rank rank, Window window, std::uint64_t offset) const {
  if (window == Window::buffer || layout_->num_segments() == 1) return rank;
  const auto segment = static_cast<std::uint32_t>(offset / layout_->stride().count);
  return Rank{grid_.scaleout_index(rank) * grid_.num_scaleup() + segment};
}

std::byte* Memory::at(Rank rank, Window window, std::uint64_t offset) const {
  if (window == Window::buffer) return buffers_[rank.value].data() + offset;
  if (segment_) return nullptr;
  const Rank owns = owner(rank, window, offset);
  return segments_[owns.value].data() + offset % layout_->stride().count;
}

void Memory::read(Rank rank, Window window, std::uint64_t offset, std::span<std::byte> out) const {
  if (out.empty()) return;
  if (window == Window::storage && segment_) {
    (*segment_)(owner(rank, window, offset), offset % layout_->stride().count, out);
    return;
  }
  std::memcpy(out.data(), at(rank, window, offset), out.size());
}

void Memory::write(Rank rank, Window window, std::uint64_t offset,
                   std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(at(rank, window, offset), bytes.data(), bytes.size());
}

void Memory::add(Rank rank, Window window, std::uint64_t offset, std::uint64_t value) {
  std::byte* word = at(rank, window, offset);
  std::uint64_t now = 0;
  std::memcpy(&now, word, sizeof now);
  now += value;
  std::memcpy(word, &now, sizeof now);
}

}  // namespace engram::host
