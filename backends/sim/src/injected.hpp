// Faults that a memory shows: rows that are wrong where they lie, stores that are seen late.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engram/host/memory.hpp"
#include "engram/sim_backend/sim_backend.hpp"

namespace engram::sim_backend {

/// Which reads meet bytes that are wrong, and how many did.
class CorruptRows {
 public:
  explicit CorruptRows(const std::vector<CorruptRow>& rows) : rows_(rows), reads_(rows.size()) {}

  [[nodiscard]] bool none() const { return rows_.empty(); }
  /// Whether bytes read at `offset` of `owner`'s segment are wrong now; counts it.
  [[nodiscard]] bool hit(Rank owner, std::uint64_t offset, sim::Picos now) {
    bool wrong = false;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const CorruptRow& row = rows_[i];
      if (row.owner != owner || now < row.at || offset < row.offset ||
          offset - row.offset >= row.bytes || reads_[i] >= row.most) {
        continue;
      }
      ++reads_[i];
      wrong = true;
    }
    return wrong;
  }
  [[nodiscard]] std::uint64_t reads(std::size_t row) const { return reads_[row]; }

 private:
  const std::vector<CorruptRow>& rows_;
  std::vector<std::uint64_t> reads_;
};

/// Stores into a rank's own segment that others do not see yet.
class LateStores {
 public:
  explicit LateStores(std::uint32_t num_ranks) : of_rank_(num_ranks) {}

  void add(Rank rank, std::uint64_t offset, std::span<const std::byte> bytes, sim::Picos seen) {
    of_rank_[rank.value].push_back({seen, offset, {bytes.begin(), bytes.end()}});
  }
  /// When everything that `rank` has stored is seen; 0 = it is.
  [[nodiscard]] sim::Picos all_seen(Rank rank) const {
    sim::Picos last{0};
    for (const Store& store : of_rank_[rank.value]) last = std::max(last, store.seen);
    return last;
  }
  /// Lets what is seen by `now` into memory, in the order in which it was stored.
  void settle(Rank rank, sim::Picos now, host::Memory& memory, std::uint64_t base) {
    auto& stores = of_rank_[rank.value];
    std::erase_if(stores, [&](const Store& store) {
      if (store.seen > now) return false;
      memory.write(rank, host::Window::storage, base + store.offset, store.bytes);
      return true;
    });
  }

 private:
  struct Store {
    sim::Picos seen{0};
    std::uint64_t offset = 0;  // in the segment
    std::vector<std::byte> bytes;
  };
  std::vector<std::vector<Store>> of_rank_;
};

}  // namespace engram::sim_backend
