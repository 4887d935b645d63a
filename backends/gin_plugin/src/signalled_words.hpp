// Which words of registered memory have served as VA signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "engram/gin_plugin/shared_memory.hpp"

namespace engram::gin_plugin {

using RegionId = std::uint16_t;  ///< what device code calls a handle; 0 names none

/// A set of (region, offset) of one rank, in memory that the ranks of its host share: whoever adds
/// to a word notes it, and after an error the owner lets the noted words grow, so that a kernel's
/// wait for one ends. The plugin learns of such a word by its first signal alone: nothing of a wait
/// reaches the host.
class SignalledWords {
 public:
  static constexpr std::size_t kMost = 4096;  ///< further words are not noted

  SignalledWords() = default;
  explicit SignalledWords(SharedMemory memory) : memory_(std::move(memory)) {}

  [[nodiscard]] static Bytes size() { return {kMost * sizeof(std::uint64_t)}; }
  [[nodiscard]] explicit operator bool() const { return !memory_.bytes().empty(); }
  [[nodiscard]] int fd() const { return memory_.fd(); }

  /// `offset`: of an 8-byte word in the owner's region `id`. Any thread of any rank of the host.
  void note(RegionId id, std::uint64_t offset) const {
    const std::uint64_t key = std::uint64_t{id} << 48 | offset / 8;
    std::size_t at = key * 0x9E3779B97F4A7C15ull >> 52;
    static_assert(kMost == 1 << 12);
    for (std::size_t tries = 0; tries < kMost; ++tries, at = (at + 1) % kMost) {
      auto word = slot(at);
      std::uint64_t found = word.load(std::memory_order_acquire);
      if (found == 0 && word.compare_exchange_strong(found, key)) return;
      if (found == key) return;
    }
  }

  struct Word {
    RegionId region = 0;
    std::uint64_t offset = 0;
  };
  /// The word in slot `at` < kMost, if there is one.
  [[nodiscard]] std::optional<Word> word(std::size_t at) const {
    const std::uint64_t key = slot(at).load(std::memory_order_acquire);
    if (key == 0) return std::nullopt;
    return Word{static_cast<RegionId>(key >> 48), (key & ((std::uint64_t{1} << 48) - 1)) * 8};
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> slot(std::size_t at) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory_.bytes().data())[at]);
  }

  SharedMemory memory_;
};

}  // namespace engram::gin_plugin
