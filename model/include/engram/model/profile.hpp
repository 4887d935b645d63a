// A platform as sourced numbers: what a GPU, a NIC, a link and a memory can do.
// The numbers live in model/profiles/*.toml, each beside its source; this header only says what
// each one means. One mechanism, one parameter: nothing here is tuned for a single published row.
//
// An unloaded request, from post to completion (one thread):
//   issue   first + build + doorbell
//   there   request_latency, links (message at the port's rate)
//   write   response_latency, then the answer leaves; the payload is seen write_latency later
//   read    response_latency + read_latency + pcie.gpu_latency or pcie.host_latency
//   back    links, completion_latency
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engram/core/units.hpp"

namespace engram::model {

// A rate of 0 is no limit, a time of 0 costs nothing; a count of 0 is refused where there must be
// one (profile_file.cpp).

/// What a GPU thread pays to put a request on a queue.
struct IssueProfile {
  Nanos build{};        ///< one thread writes one work request, fence included; no doorbell
  Nanos doorbell{};     ///< the thread's share of one ring: fence, MMIO store
  Nanos first{};        ///< extra for a request on an idle queue; hidden while a thread issues on
  Nanos shared_lock{};  ///< extra per request when several SMs share the context
  Nanos block_lock{};   ///< extra per request when the warps of one block share the context
  std::uint32_t warp_parallel = 1;  ///< requests one warp builds together (lanes that can overlap)
};

/// How the cost of a connection that is not cached on the NIC enters.
struct ConnectionCache {
  std::uint32_t capacity = 0;  ///< connections whose state the NIC holds; 0 = unlimited
  Nanos requester_miss{};      ///< engine time of a miss on the sending side
  Nanos responder_miss{};      ///< engine time of a miss on the receiving side
};

struct NicProfile {
  BytesPerSecond port{};       ///< one direction of one port
  std::uint32_t ports = 1;     ///< planes a NIC can use
  PerSecond read_rate{};       ///< reads the whole NIC starts a second
  PerSecond write_rate{};      ///< writes the whole NIC starts a second
  PerSecond atomic_rate{};     ///< remote adds
  PerSecond responder_rate{};  ///< reads the whole NIC serves a second
  PerSecond receive_rate{};    ///< writes it takes in a second, on the engine that also starts them
  PerSecond qp_rate{};         ///< requests one QP can start a second
  PerSecond doorbell_rate{};   ///< rings the NIC takes a second over all QPs
  std::uint32_t outstanding_reads = 16;  ///< reads in flight on one QP, limited by the NIC
  std::uint32_t queue_depth = 1024;      ///< default requests a QP holds
  std::uint32_t max_queue_depth = 32768;
  std::uint32_t max_qps = 65536;  ///< QPs (contexts x peers) a NIC can hold
  Nanos request_latency{};   ///< doorbell seen -> request leaves the port, one direction, unloaded
  Nanos response_latency{};  ///< responder receives -> answer leaves, without its memory
  Nanos completion_latency{};  ///< answer arrives -> completion visible to the GPU
  Nanos read_latency{};        ///< extra at the responder for a read, beside its memory's latency
  Nanos write_latency{};       ///< a write's payload taken by the NIC -> seen by a polling GPU
  Nanos atomic_latency{};      ///< extra at the responder for a remote add
  std::uint32_t header_bytes = 0;   ///< wire bytes a packet carries beside its payload
  std::uint32_t request_bytes = 0;  ///< wire bytes of a read request
  bool flush_rings = false;  ///< whether a flush rings what is un-rung (differs by library version)
  bool ordered_completions = true;  ///< completions of one QP come in order
  ConnectionCache cache{};
};

struct PcieProfile {
  BytesPerSecond rate{};  ///< NIC to GPU or host memory, one direction
  Nanos gpu_latency{};    ///< NIC reads GPU memory
  Nanos host_latency{};   ///< NIC reads host memory
};

/// Load/store access inside the scale-up domain.
struct NvlinkProfile {
  BytesPerSecond raw{};              ///< usable bytes a direction, headers included
  std::uint32_t load_payload = 128;  ///< payload bytes of one SM request
  std::uint32_t load_header = 16;    ///< header bytes of one SM request (also sent the other way)
  std::uint32_t copy_payload = 256;  ///< the same for copy-engine packets
  std::uint32_t copy_header = 16;
  Nanos load_latency{};     ///< one dependent load from a peer's memory
  BytesPerSecond per_sm{};  ///< what one SM can pull
  std::uint32_t copy_engines = 1;
  Nanos copy_launch{};            ///< start of one copy-engine copy
  std::uint32_t domain_gpus = 8;  ///< GPUs that can load from one another
};

struct MemoryProfile {
  BytesPerSecond hbm{};  ///< gather of rows from own memory, bytes delivered
  Nanos hbm_latency{};
  BytesPerSecond hbm_per_sm{};
  BytesPerSecond host_link{};  ///< GPU loads from host memory of its node
  Nanos host_latency{};
  Bytes host_reach{};          ///< host bytes whose translations are held; 0 = unlimited
  PerSecond host_miss_rate{};  ///< loads outside the reach a second
};

/// When a plain store by one SM becomes visible, by scope.
struct ScopeProfile {
  Nanos own_gpu{};
  Nanos domain{};  ///< GPUs of the same NVLink domain
  Nanos system{};  ///< host and NICs
};

struct GpuProfile {
  std::uint32_t sms = 0;
  std::uint32_t warps_per_block = 32;
  Nanos kernel_launch{};  ///< host call to first warp running
  Nanos kernel_drain{};   ///< last warp done to stream free
};

struct SwitchProfile {
  Nanos hop_latency{};
  Nanos cable_latency{};
  Bytes buffer_per_lane{};  ///< credits a virtual lane has at each input port
  std::uint32_t mtu = 4096;
};

/// DCQCN, in the words of sim/src/congestion.hpp; without effect unless a run asks for it.
struct CongestionProfile {
  Bytes mark_from{};               ///< of a switch's queue: up to here no packet is marked (Kmin)
  Bytes mark_full{};               ///< from here on every packet is (Kmax)
  std::uint32_t mark_one_in = 1;   ///< just below mark_full: one packet in so many (1 / Pmax)
  std::uint32_t gain_one_in = 1;   ///< share by which one notification moves alpha (1 / g)
  Nanos notify_interval{};         ///< least time between two notifications of one flow
  Nanos alpha_interval{};          ///< alpha falls once in this time without a notification
  Nanos step_interval{};           ///< a step up by time
  Bytes step_bytes{};              ///< a step up by bytes sent
  std::uint32_t recovery_steps{};  ///< steps that halve the way back before the rate goes beyond
  BytesPerSecond additive_rate{};  ///< a step beyond; also the slowest that a flow becomes
  BytesPerSecond hyper_rate{};     ///< a step beyond once both time and bytes have so many
};

struct Profile {
  std::string name;    ///< file name without .toml
  std::string source;  ///< one line: which machine, which publication
  GpuProfile gpu;
  IssueProfile issue;
  NicProfile nic;
  PcieProfile pcie;
  NvlinkProfile nvlink;
  MemoryProfile memory;
  ScopeProfile scope;
  SwitchProfile network;
  CongestionProfile congestion;
  std::map<std::string, std::string> sources;  ///< "nic.port" -> where the number comes from
};

}  // namespace engram::model
