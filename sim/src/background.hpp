// Traffic of others: messages on the links alone, or reads and writes through the NICs.
#pragma once

#include <cstdint>
#include <vector>

#include "nic.hpp"

namespace engram::sim {

class BackgroundTraffic {
 public:
  BackgroundTraffic(NicState& state, Requester& requester);

  /// Opens the QPs of entries that read or write. Errors: those of QpTable::open, naming the entry.
  [[nodiscard]] Result<void> open();
  /// The run may have work again: what rests goes on.
  void wake();
  void on_message(std::uint32_t entry);
  [[nodiscard]] std::uint64_t messages(std::uint32_t entry) const { return sent_[entry]; }

 private:
  void send(std::uint32_t entry);
  void post(std::uint32_t entry);

  NicState& s_;
  Requester& requester_;
  const std::vector<Background>& entries_;
  std::vector<bool> rests_;           // [entry]
  std::vector<std::uint32_t> qps_;    // [entry]: its first QP, the others follow; kNone = none
  std::vector<std::uint32_t> turns_;  // [entry]: messages so far, also those that found no slot
  std::vector<std::uint64_t> sent_;   // [entry]
};

}  // namespace engram::sim
