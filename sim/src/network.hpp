// Packets on links: queues and credits by virtual lane, deficit round robin, cut-through hops.
#pragma once

#include <cstdint>
#include <vector>

#include "congestion.hpp"
#include "context.hpp"

namespace engram::sim {

enum class PacketKind : std::uint8_t { request, response, background };

struct Packet {
  std::uint32_t next = kNone;  ///< in its queue
  std::uint32_t train = kNone, generation = 0;
  std::uint32_t link = kNone;  ///< it travels on, or whose far buffer holds it
  std::uint32_t target = 0;    ///< vertex
  std::uint32_t bytes = 0;     ///< on the wire
  std::uint32_t payload = 0;
  std::uint32_t flow = kNone;  ///< of congestion control
  std::uint64_t hash = 0;
  std::uint8_t lane = 0;
  bool marked = false;
  PacketKind kind = PacketKind::request;
  Picos tail{0};  ///< when its last byte is where its head is now
};

/// Of messages that congestion control leaves alone: requests of reads, answers without data.
inline constexpr std::uint64_t kUncontrolled = ~std::uint64_t{0};

/// A message to send; cut into packets of at most `segment` payload bytes.
struct Message {
  PacketKind kind = PacketKind::request;
  std::uint32_t train = kNone, generation = 0;
  std::uint32_t source = 0, target = 0;  ///< vertices
  std::uint64_t hash = 0;                ///< of its flow
  std::uint8_t lane = 0;
  std::uint64_t payload = 0, overhead = 0;  ///< bytes; overhead is spread over the packets
  std::uint64_t segment = 4096;
  std::uint64_t flow = kUncontrolled;  ///< key for congestion control, of messages with data
  Picos last_byte{0};  ///< when the sender has it whole; bytes come evenly from now on
};

/// Where packets leave the network.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// The head of `packet` is at its target NIC. Answers when the NIC's buffer is free again.
  virtual Picos deliver(const Packet& packet) = 0;
  /// `packet` is gone; `fault` = the entry of the plan that took it.
  virtual void lost(const Packet& packet, std::uint32_t fault) = 0;
};

class Network {
 public:
  Network(Context& context, PacketSink& sink);

  void send(const Message& message);
  void on_port_free(std::uint32_t link);
  void on_paced(std::uint32_t flow);
  void on_notification(std::uint32_t flow) { congestion_.cut(flow); }
  void on_arrive(std::uint32_t packet);
  void on_credit(std::uint32_t buffer, std::uint64_t bytes);
  /// `fault`: the entry of the plan that takes it down, or that had.
  void set_link(std::uint32_t link, bool up, std::uint32_t fault);
  [[nodiscard]] const Pool<Packet>& packets() const { return packets_; }

  /// Whether congestion control is on and the port of `source` still holds what it was given for
  /// `lane`, or flow `key` waits for its turn: traffic that is merely offered then stays away.
  [[nodiscard]] bool backlogged(std::uint32_t source, std::uint8_t lane, std::uint64_t key) const;
  /// Packets that `link` lost or turned away while it was down.
  [[nodiscard]] std::uint64_t missed(std::uint32_t link) const { return ports_[link].missed; }
  [[nodiscard]] const CongestionCounters& congestion() const { return congestion_.counters(); }
  [[nodiscard]] const LinkCounters& counters(std::uint32_t link) const {
    return ports_[link].counters;
  }
  /// Latency and slowest rate of the way that an idle network's first choice takes.
  struct Way {
    Picos latency{0};
    ByteTime slowest;
  };
  [[nodiscard]] Way way(std::uint32_t source, std::uint32_t target) const;

 private:
  struct Port {  // the sending side of one link
    ByteTime wire;
    Picos latency{0}, free_at{0};
    std::uint32_t from = 0, to = 0;  // vertices
    std::uint64_t queued = 0;        // bytes
    std::uint32_t waiting = 0;       // packets
    std::uint8_t turn = 0;           // whose round it is
    bool wake_scheduled = false, up = true;
    std::uint32_t down_by = kNone;  // fault
    std::uint64_t missed = 0;       // packets that it lost or could not take while it was down
    LinkCounters counters;
  };
  struct Queue {
    std::uint32_t first = kNone, last = kNone;  // packets
  };
  // A NIC's port takes turns between its own requests and its answers to others: an answer does
  // not stand behind a thousand requests that wait for credits. The turns are of bytes, so that it
  // does not matter how large the packets are that a fidelity makes of the same messages. A switch
  // uses the first queue only.
  struct Lane {
    Queue queues[2];
    Queue waiters;           // flows that congestion control holds back until there is room
    std::uint8_t turn = 0;   // of two that have sent as much
    std::int64_t ahead = 0;  // bytes that the first queue sent beyond the second while both waited
    std::int64_t deficit = 0;
    std::uint64_t held = 0;    // bytes in the buffer at the far end of the link
    std::uint64_t queued = 0;  // bytes that wait here
    [[nodiscard]] std::uint8_t next() const {
      if (queues[0].first == kNone) return 1;
      if (queues[1].first == kNone) return 0;
      return ahead == 0 ? turn : (ahead > 0 ? 1 : 0);
    }
    [[nodiscard]] std::uint32_t head() const { return queues[next()].first; }
  };

  /// Whether the port of a NIC takes another packet of a controlled flow.
  [[nodiscard]] bool has_room(std::uint32_t vertex, std::uint8_t lane) const;
  void release(std::uint32_t flow);
  void release_waiters(Lane& lane, bool all);
  void enter(std::uint32_t vertex, std::uint32_t packet);
  void wait_for_pace(std::uint32_t flow, std::uint32_t packet);
  void enqueue(std::uint32_t link, std::uint32_t packet);
  void try_send(std::uint32_t link);
  [[nodiscard]] int pick_lane(std::uint32_t link);
  [[nodiscard]] bool may_send(const Lane& lane) const;
  void transmit(std::uint32_t link, Lane& lane);
  void lose(std::uint32_t packet, std::uint32_t link);  // that is down
  [[nodiscard]] std::uint32_t route(std::uint32_t at, const Packet& packet);
  [[nodiscard]] bool usable(std::uint32_t link) {
    if (ports_[link].up) return true;
    ++ports_[link].missed;
    blocked_by_ = link;
    return false;
  }
  /// Whether a packet that took `link` would find a way on to `target`, as far as links are up.
  [[nodiscard]] bool leads_on(std::uint32_t link, std::uint32_t target);
  void loop_back(std::uint32_t packet, std::uint32_t vertex);

  // Packets that congestion control holds back before their port, by flow.
  struct Paced {
    Queue queue;
    Picos next{0};
    bool scheduled = false, waits = false;  // for its pace; for room in its port
    std::uint32_t next_waiter = kNone;      // flow
  };

  Context& context_;
  PacketSink& sink_;
  CongestionControl congestion_;
  std::vector<Paced> paced_;

  const std::uint32_t num_lanes_;
  const std::uint64_t buffer_;  // bytes a lane; 0 = unlimited
  std::int64_t quantum_ = 0;
  std::vector<Port> ports_;
  std::uint32_t num_down_ = 0;        // links
  std::uint32_t blocked_by_ = kNone;  // the last that was found to be down
  std::vector<Lane> lanes_;           // [link][lane]
  // Shortcuts past the topology's tables, [vertex]: its one link out, its one link in, or kNone.
  std::vector<std::uint32_t> only_out_, only_in_;
  std::vector<Picos> loop_free_;  // [vertex]
  ByteTime loop_wire_;
  Pool<Packet> packets_;
};

/// Keys of congestion control: data of a QP, from its poster or to it, and entries of background.
[[nodiscard]] constexpr std::uint64_t data_flow(std::uint32_t qp, bool from_poster) {
  return std::uint64_t{qp} << 1 | (from_poster ? 1 : 0);
}
[[nodiscard]] constexpr std::uint64_t background_flow(std::uint32_t entry) {
  return std::uint64_t{1} << 40 | entry;
}

/// Largest payload of a packet at this fidelity.
[[nodiscard]] std::uint64_t segment_bytes(const FabricOptions& options);

}  // namespace engram::sim
