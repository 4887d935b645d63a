// One set of GIN contexts as a communicator made it, and what a worker keeps of each context.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "engram/gin_plugin/abi.hpp"
#include "engram/gin_plugin/descriptor.hpp"
#include "engram/gin_plugin/shared_memory.hpp"
#include "remote.hpp"

namespace engram::gin_plugin {

/// A request of the RMA interface: done once its context has done `number` operations. The poster's
/// thread alone touches it, so that asking for one of thousands costs no cache line of another
/// core.
struct RmaRequest {
  const std::atomic<std::uint64_t>* done_upto = nullptr;
  std::uint64_t number = 0;
  class RmaRequests* pool = nullptr;
};

/// Requests of one set, used again and again: NCCL's thread makes and frees millions a second.
class RmaRequests {
 public:
  [[nodiscard]] RmaRequest* take() {
    if (free_.empty()) {
      owned_.push_back(std::make_unique<RmaRequest[]>(kAtOnce));
      for (std::size_t i = kAtOnce; i-- > 0;) {
        owned_.back()[i].pool = this;
        free_.push_back(&owned_.back()[i]);
      }
    }
    RmaRequest* request = free_.back();
    free_.pop_back();
    return request;
  }
  void give(RmaRequest* request) { free_.push_back(request); }

 private:
  static constexpr std::size_t kAtOnce = 1024;
  std::vector<std::unique_ptr<RmaRequest[]>> owned_;
  std::vector<RmaRequest*> free_;
};

/// An operation of the RMA interface; regions are named by pointer there.
struct RmaOperation {
  Operation operation;  ///< its handles are the regions' ids; signals go by `signal_region`
  Region* signal_region = nullptr;
  std::uint64_t signal_offset = 0;
};

/// One producer (NCCL's progress thread), one consumer (the worker). Each looks at the other's
/// index only when what it last saw of it does not suffice.
class RmaQueue {
 public:
  /// `capacity`: a power of two.
  explicit RmaQueue(std::size_t capacity) : slots_(capacity), mask_(capacity - 1) {}

  /// The operation's number, from 1 on; 0 = the queue is full.
  [[nodiscard]] std::uint64_t push(const RmaOperation& operation) {
    const auto tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ == slots_.size()) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ == slots_.size()) return 0;
    }
    slots_[tail & mask_] = operation;
    tail_.store(tail + 1, std::memory_order_release);
    return tail + 1;
  }
  /// The number of the operation taken; 0 = the queue is empty.
  [[nodiscard]] std::uint64_t pop(RmaOperation& operation) {
    const auto head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return 0;
    }
    operation = slots_[head & mask_];
    head_.store(head + 1, std::memory_order_release);
    return head + 1;
  }

 private:
  std::vector<RmaOperation> slots_;
  std::size_t mask_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // the producer's line
  std::uint64_t head_seen_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};  // the consumer's line
  std::uint64_t tail_seen_ = 0;
};

/// What waits in a context for everything before it. Taken strictly in order, which makes every
/// signal a strong one.
struct Pending {
  enum class Kind : std::uint8_t {
    batch,          ///< number: the worker's batch
    ticket,         ///< a Remote's work
    count,          ///< index: counter
    counted,        ///< the same, and the device stores the counter with the batch before
    reset_counter,  ///< index: counter
    signal,         ///< index: signal at `peer`; value
    add,            ///< region, offset at `peer`; value
    requests,       ///< RMA: the operations up to `number` are done
  };
  Kind kind = Kind::batch;
  std::uint32_t peer = 0;
  std::uint32_t index = 0;
  std::uint64_t number = 0;  ///< of a batch or of RMA's operations, or offset in `region`
  std::uint64_t value = 0;
  Region* region = nullptr;
  TicketPtr ticket;
};

/// Everything of one context; its worker alone touches it once it is running.
struct ContextState {
  std::uint32_t index = 0;
  std::size_t worker = 0;                  ///< which one serves it
  RingReader ring;                         ///< GPI
  abi::ConsumerIndex* consumed = nullptr;  ///< GPI, pinned
  std::unique_ptr<RmaQueue> queue;         ///< RMA
  std::vector<std::uint64_t> counts;       ///< what the counters hold
  abi::Counter* counters = nullptr;        ///< [counts.size()], pinned
  std::vector<abi::Signal*> signals;       ///< [num_ranks] of each rank; null where not mapped
  std::uint32_t num_signals = 0;
  std::deque<Pending> pending;
  /// Copies for owners, by peer, that have not been posted; see Worker::flush_remote.
  std::vector<std::vector<RemoteCopy>> reads, writes;
  std::size_t num_held = 0;      ///< in `reads` and `writes`
  std::size_t tickets_open = 0;  ///< in `pending`
  struct ContextSet* set = nullptr;
  alignas(64) std::atomic<std::uint64_t> rma_done{0};  ///< RMA: operations done, told by the worker
};

/// What createContext made: contexts whose counters and signals lie in one shared memory.
struct ContextSet {
  std::uint32_t instance = 0;
  std::uint32_t num_counters = 0;  ///< with the flush counters
  std::uint32_t num_signals = 0;
  SharedMemory own;
  std::vector<SharedMemory> peers;  ///< [num_ranks], empty for oneself and across hosts
  std::function<void()> unpin;
  Block rings;     ///< pinned: [contexts][depth] descriptors
  Block consumed;  ///< pinned: [contexts] ConsumerIndex
  Block channels;  ///< device: what device code gets
  abi::DeviceHandle handle{};
  RmaRequests requests;  ///< RMA
  std::vector<std::unique_ptr<ContextState>> contexts;
};

}  // namespace engram::gin_plugin
