// A NIC's two halves: the requester starts work of its own QPs, the responder serves others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "context.hpp"
#include "faults.hpp"
#include "network.hpp"
#include "qp.hpp"

namespace engram::sim {

/// Connections a NIC holds; a new one takes the place of a random other.
class ConnectionCache {
 public:
  /// Whether connection `key` was held; it is afterwards. `slot` is kept by the caller for it.
  bool touch(std::uint32_t key, std::uint32_t& slot, std::uint32_t capacity, Chance& chance) {
    if (slot < keys_.size() && keys_[slot] == key) return true;
    if (keys_.size() < capacity) {
      slot = static_cast<std::uint32_t>(keys_.size());
      keys_.push_back(key);
    } else {
      slot = static_cast<std::uint32_t>(chance.next() % capacity);
      keys_[slot] = key;
    }
    return false;
  }

 private:
  std::vector<std::uint32_t> keys_;
};

/// First in, first out; grows.
template <class T>
class Ring {
 public:
  [[nodiscard]] std::uint32_t size() const { return size_; }
  void push(const T& value) {
    if (size_ == ring_.size()) grow();
    at(size_++) = value;
  }
  T pop() {
    const T value = at(0);
    first_ = (first_ + 1) & (static_cast<std::uint32_t>(ring_.size()) - 1);
    --size_;
    return value;
  }
  /// The one that comes after `before` others.
  T& at(std::uint32_t before) {
    return ring_[(first_ + before) & (static_cast<std::uint32_t>(ring_.size()) - 1)];
  }
  T& back() { return at(size_ - 1); }

 private:
  void grow() {
    std::vector<T> larger(std::max<std::size_t>(8, 2 * ring_.size()));
    for (std::uint32_t i = 0; i < size_; ++i) larger[i] = at(i);
    ring_.swap(larger);
    first_ = 0;
  }
  std::vector<T> ring_;  // its size is a power of two
  std::uint32_t first_ = 0, size_ = 0;
};

struct Nic {
  struct Cooling {
    Picos until{0};
    std::uint32_t qp = kNone;
  };
  Ring<std::uint32_t> ready;       // QPs that may start, in the order of their turns
  Ring<Cooling> cooling;           // QPs held by their own rate, by time
  Picos engine_at = Picos::max();  // when its engine looks for the next; max = nothing to do
  Picos doorbell_free{0}, engine_free{0}, responder_free{0}, pcie_read_free{0}, pcie_write_free{0};
  ConnectionCache cache;
  NicCounters counters;
};

/// Requests of one QP that travel as one message: one, or as many as the fidelity allows.
struct Train {
  std::uint32_t qp = kNone, first = kNone, count = 0;  ///< nodes
  std::uint32_t requests = 0;                          ///< sum of the nodes' counts
  std::uint32_t turn = 0;                              ///< which of a flow's QPs it travels on
  std::uint32_t generation = 0;  ///< of its packets on the way; 0 = none count any more
  std::uint8_t attempts = 0, holders = 1;
  RequestKind kind = RequestKind::read;
  Memory local_memory = Memory::gpu, remote_memory = Memory::gpu;
  Status status = Status::ok;
  bool lost = false, executed = false, holds_reads = false;
  std::uint64_t payload = 0;                ///< bytes of all requests
  std::uint64_t packets = 0;                ///< packets that carry it on a real network
  std::uint64_t expected = 0, arrived = 0;  ///< payload bytes of the message under way
  Picos started{0};
  Picos tail{0};  ///< when the last byte of the message under way is where it is now
};

/// The profile's numbers as times.
struct NicCosts {
  explicit NicCosts(const model::Profile& profile);
  [[nodiscard]] Picos start(RequestKind kind) const;
  [[nodiscard]] Picos memory_latency(Memory memory) const {
    return memory == Memory::gpu ? gpu_latency : host_latency;
  }

  Picos read, write, atomic, serve, receive, qp, doorbell;
  Picos requester_miss, responder_miss;
  Picos request_latency, response_latency, completion_latency;
  Picos read_latency, write_latency, atomic_latency, gpu_latency, host_latency;
  ByteTime pcie;
};

/// Everything the two halves work on.
struct NicState {
  NicState(Context& c, QpTable& q, Network& n, FaultState& f);

  Context& context;
  QpTable& qps;
  Network& network;
  FaultState& faults;
  const model::Profile& profile;
  const NicCosts costs;
  const std::uint64_t segment;
  std::vector<Nic> nics;  // [rank]
  Pool<Train> trains;
  std::uint32_t last_generation = 0;

  /// Wire bytes of a request message beside its payload; of an answer.
  [[nodiscard]] std::uint64_t request_overhead(const Train& train) const;
  [[nodiscard]] std::uint64_t answer_overhead(const Train& train) const;
  void let_go(std::uint32_t train) {
    if (--trains[train].holders == 0) trains.free(train);
  }
  /// How many of a train's requests find their connection out of the cache of `rank`. One request
  /// tells for all of its connection, since those of other QPs come in between.
  [[nodiscard]] std::uint32_t misses(Rank rank, const Train& train, bool responder);
  /// A packet of `train` is gone, to entry `fault` of the plan: it is sent again after the plan's
  /// timeout.
  void lost(std::uint32_t train, std::uint32_t generation, std::uint32_t fault);
  /// Of QPs that faults took something from: the last fault, and how often.
  struct Loss {
    std::uint32_t fault = kNone;
    std::uint64_t times = 0;
  };
  std::unordered_map<std::uint32_t, Loss> losses;
  void note_loss(std::uint32_t qp, std::uint32_t fault) {
    Loss& loss = losses[qp];
    loss = {fault, loss.times + 1};
  }
};

class Requester {
 public:
  explicit Requester(NicState& state) : s_(state) {}

  void ring(std::uint32_t qp);
  /// As many doorbells of a flow; its first requests are seen at once. Answers when the last is.
  Picos ring_flow(std::uint32_t qp, std::uint64_t doorbells);
  void on_doorbell(std::uint32_t qp, std::uint16_t producer);
  void on_engine_free(std::uint32_t rank);
  void on_qp_ready(std::uint32_t qp);
  void on_inject(std::uint32_t train, std::uint32_t generation);
  /// The answer to a train, or a part of it, is here; answers when its buffer is free.
  Picos take_answer(std::uint32_t train, const Packet& packet);
  /// Before the nodes are delivered: frees what the train held and answers it.
  Train finish(std::uint32_t train);
  /// After: starts what waited.
  void resume(std::uint32_t qp) { make_ready(qp); }
  void on_retry(std::uint32_t train, std::uint32_t generation);

 private:
  void show(std::uint32_t qp, Picos at);
  void make_ready(std::uint32_t qp);
  void cool(std::uint32_t qp);
  void warm(Nic& nic);
  [[nodiscard]] bool may_line_up(std::uint32_t qp);
  [[nodiscard]] bool may_start(const Qp& queue);
  void kick(std::uint32_t rank);
  [[nodiscard]] std::uint32_t take_ready(Nic& nic);
  void start(std::uint32_t rank, std::uint32_t qp);
  std::uint32_t gather(std::uint32_t qp);
  void send_request(std::uint32_t train, Picos at, Picos spread);
  void flush(std::uint32_t qp);
  void fail(std::uint32_t train, Picos at);

  NicState& s_;
};

class Responder {
 public:
  explicit Responder(NicState& state) : s_(state) {}

  /// A request, or a part of it, is here; answers when its buffer is free.
  Picos take_request(std::uint32_t train, const Packet& packet);
  void on_memory(std::uint32_t train, std::uint32_t generation);
  void on_visible(std::uint32_t train);
  void on_acknowledge(std::uint32_t train, std::uint32_t generation);

 private:
  void serve(std::uint32_t train, Picos arrived);
  Picos take_write(std::uint32_t train, const Packet& packet);
  void access(Train& train);
  void answer(std::uint32_t train, std::uint64_t payload, Picos last_byte);

  NicState& s_;
};

}  // namespace engram::sim
