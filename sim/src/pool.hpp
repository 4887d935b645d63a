// Objects named by a dense 32-bit number, in chunks: references stay good while others are made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace engram::sim {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

template <class T>
class Pool {
 public:
  /// A default-made object; the most recently freed place is used first.
  std::uint32_t make() {
    std::uint32_t index;
    if (free_.empty()) {
      index = size_++;
      if (index / kChunk == chunks_.size()) chunks_.push_back(std::make_unique<Chunk>());
    } else {
      index = free_.back();
      free_.pop_back();
    }
    (*this)[index] = T{};
    return index;
  }
  void free(std::uint32_t index) { free_.push_back(index); }
  /// Asks the cache for it.
  void fetch(std::uint32_t index) const {
    const auto* bytes = reinterpret_cast<const char*>(&(*this)[index]);
    for (std::size_t at = 0; at < sizeof(T); at += 64) __builtin_prefetch(bytes + at, 1);
  }

  T& operator[](std::uint32_t index) { return (*chunks_[index / kChunk])[index % kChunk]; }
  const T& operator[](std::uint32_t index) const {
    return (*chunks_[index / kChunk])[index % kChunk];
  }
  /// Places ever used; all are live when none was freed.
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  using Chunk = std::array<T, kChunk>;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t size_ = 0;
};

}  // namespace engram::sim
