// A fetch over the network, written once: issue and wait, for any GinContext and WarpGroup.
//
// Block q drives QP q. In it, unit u = (peer u mod P, share u / P) belongs to warp u mod warps. A
// unit scans its QP's share of the reads and keeps those of its peer (or is given them, where the
// source has sorted the reads beforehand: unit_lists.hpp) in a small ring, posts them 32 at a time,
// rings whenever `ring_every` requests would be un-rung and always on its last one, and then asks
// for one handle. Rows reached by loads are copied by gather_direct, which also fills the rows of
// index -1 with zeros.
#pragma once

#include <concepts>
#include <cstdint>

#include "engram/core/defects.hpp"
#include "engram/core/device.hpp"
#include "engram/core/fetch_plan.hpp"
#include "engram/core/gin.hpp"
#include "engram/core/route.hpp"
#include "engram/core/wait_error.hpp"

namespace engram::core {

/// One read, routed: everything a get or a copy needs.
struct RoutedRead {
  Path path = Path::none;
  std::uint32_t peer = 0;        ///< rdma: in the fetch's team; direct: in the NVLink domain
  std::uint64_t src_offset = 0;  ///< in the peer's storage window
  std::uint64_t dst_offset = 0;  ///< in our buffer window
  std::uint32_t bytes = 0;
};

/// Rows named by indices [layers, reads_per_layer]; read i of layer l lands at
/// `dst_base[l] + i * row`.
struct IndexReads {
  Router router;
  const std::int64_t* indices = nullptr;
  const std::uint64_t* dst_base = nullptr;  ///< [layers], in the buffer window
  std::uint64_t reads_per_layer = 0;

  [[nodiscard]] ENGRAM_HD constexpr std::uint32_t num_layers() const { return router.num_layers; }
  [[nodiscard]] ENGRAM_HD constexpr std::uint64_t num_reads(std::uint32_t) const {
    return reads_per_layer;
  }
  [[nodiscard]] ENGRAM_HD constexpr RoutedRead at(std::uint32_t layer, std::uint64_t i) const {
    const Place place = router.route(layer, indices[layer * reads_per_layer + i]);
    const auto bytes = static_cast<std::uint32_t>(router.layers[layer].row_bytes);
    const std::uint32_t peer = place.path == Path::rdma || place.path == Path::none
                                   ? place.peer.value
                                   : router.grid.nvlink_index(place.owner);
    return {place.path, peer, place.offset, dst_base[layer] + i * bytes, bytes};
  }
};

/// Reads of one layer by number; what a scan of unit `unit` of QP `qp` would find, in that order.
struct UnitReads {
  const std::uint32_t* reads = nullptr;
  std::uint32_t count = 0;
};

/// `at(layer, i)` routes read i; units scan for their own.
template <class S>
concept ReadSource = requires(const S source, std::uint32_t layer, std::uint64_t i) {
  { source.num_layers() } -> std::same_as<std::uint32_t>;
  { source.num_reads(layer) } -> std::same_as<std::uint64_t>;
  { source.at(layer, i) } -> std::convertible_to<RoutedRead>;
};
static_assert(ReadSource<IndexReads>);

/// One that knows beforehand which reads are a unit's: the unit touches no others.
template <class S>
concept SortedReadSource = ReadSource<S> &&
    requires(const S source, std::uint32_t layer, std::uint32_t number) {
  { source.of_unit(layer, number, number) } -> std::same_as<UnitReads>;  // (layer, qp, unit)
};

/// What a unit leaves for the wait; `posted` = 0 means that there is nothing to wait for.
template <class Request>
struct UnitTicket {
  Request request{};
  std::uint64_t posted = 0;
  std::uint64_t doorbells = 0;  ///< that the unit asked for; a flush may ring another
};

template <GinContext Gin, ReadSource Source>
struct FetchArgs {
  Source reads;
  FetchPlan plan;
  Team team = Team::world;
  Rank self;
  RankGrid grid;
  typename Gin::Window storage, buffer;
  UnitTicket<typename Gin::Request>* tickets = nullptr;  ///< [layers, num_qps, units_per_qp]
  Defects defects;

  [[nodiscard]] ENGRAM_HD UnitTicket<typename Gin::Request>& ticket(std::uint32_t layer,
                                                                    std::uint32_t qp,
                                                                    std::uint32_t unit) const {
    return tickets[(static_cast<std::uint64_t>(layer) * plan.num_qps + qp) * plan.units_per_qp() +
                   unit];
  }
};

namespace detail {

/// A unit at work: the reads it has found and not posted, and what it has not rung.
template <GinContext Gin, WarpGroup Warp, ReadSource Source>
struct UnitQueue {
  const Gin& gin;
  Warp& warp;
  const FetchArgs<Gin, Source>& args;
  std::uint32_t layer, peer;
  std::uint32_t first = 0;  ///< where the oldest pending read stands in the ring
  std::uint32_t pending = 0, unrung = 0;
  std::uint64_t posted = 0, doorbells = 0;

  /// A batch and one more scan fit.
  static constexpr std::uint32_t kRing = 2 * kWarpLanes;
  [[nodiscard]] ENGRAM_HD std::uint64_t& found(std::uint32_t i) const {
    return warp.scratch()[(first + i) % kRing];
  }

  ENGRAM_HD void post(std::uint64_t read, Ring ring) const {
    const RoutedRead r = args.reads.at(layer, read);
    gin.get(args.team, peer, args.storage, r.src_offset, args.buffer, r.dst_offset, r.bytes, ring);
  }

  /// Posts the first `count` pending reads; the ringing one goes last, after all its fellows.
  ENGRAM_HD void post_pending(std::uint32_t count, bool last) {
    const bool ring = last || unrung + count >= args.plan.ring_every;
    const bool rings = ring && !(kDefectsBuilt && args.defects.tail_not_rung && last);
    warp.for_lanes(ring ? count - 1 : count,
                   [&](std::uint32_t lane) { post(found(lane), Ring::later); });
    if (ring) warp.once([&] { post(found(count - 1), rings ? Ring::now : Ring::later); });
    posted += count;
    doorbells += rings;
    unrung = ring ? 0 : unrung + count;
    pending -= count;
    first = (first + count) % kRing;
  }

  /// Takes reads [base, base + count) that are this unit's; posts only while more than a batch
  /// would wait, so that the last request is always in hand to ring.
  ENGRAM_HD void scan(std::uint64_t base, std::uint32_t count) {
    const std::uint32_t mine = warp.ballot(count, [&](std::uint32_t lane) {
      const RoutedRead r = args.reads.at(layer, base + lane);
      return r.path == Path::rdma && r.peer == peer;
    });
    warp.for_lanes(count, [&](std::uint32_t lane) {
      if ((mine >> lane & 1u) == 0) return;
      found(pending + bits_below(mine, lane)) = base + lane;
    });
    pending += bits_below(mine, kWarpLanes);
    post_full();
  }

  /// Takes `count` <= 32 reads that are this unit's.
  ENGRAM_HD void take(const std::uint32_t* reads, std::uint32_t count) {
    warp.for_lanes(count, [&](std::uint32_t lane) { found(pending + lane) = reads[lane]; });
    pending += count;
    post_full();
  }

  ENGRAM_HD void post_full() {
    const std::uint32_t batch = batch_size();
    while (pending > batch) post_pending(batch, false);
  }

  [[nodiscard]] ENGRAM_HD std::uint32_t batch_size() const {
    return args.plan.ring_every < kWarpLanes ? args.plan.ring_every : kWarpLanes;
  }
  [[nodiscard]] static ENGRAM_HD std::uint32_t bits_below(std::uint32_t mask, std::uint32_t lane) {
    const std::uint32_t below = lane >= 32 ? mask : mask & ((1u << lane) - 1);
#ifdef __CUDA_ARCH__
    return static_cast<std::uint32_t>(__popc(below));
#else
    return static_cast<std::uint32_t>(__builtin_popcount(below));
#endif
  }
};

}  // namespace detail

/// Where the chunk of `qp` in `round` begins. A round deals one chunk to each QP, and each round
/// starts one QP further: entries repeat with the token (each head has its own part of the table),
/// so without the shift a QP whose chunks always begin at the same entry asks few owners for most
/// of its reads.
[[nodiscard]] ENGRAM_HD constexpr std::uint64_t first_read(const FetchPlan& plan, std::uint32_t qp,
                                                           std::uint64_t round) {
  return (round * plan.num_qps + (qp + round) % plan.num_qps) * plan.chunk;
}

/// One warp of block `qp` of the issue kernel. Every unit writes its ticket, also when it is empty.
template <GinContext Gin, WarpGroup Warp, ReadSource Source>
ENGRAM_HD void issue_reads(const Gin& gin, Warp& warp, std::uint32_t qp, std::uint32_t warp_index,
                           const FetchArgs<Gin, Source>& args) {
  const FetchPlan& plan = args.plan;
  for (std::uint32_t layer = 0; layer < args.reads.num_layers(); ++layer) {
    [[maybe_unused]] const std::uint64_t num_reads = args.reads.num_reads(layer);
    for (std::uint32_t unit = warp_index; unit < plan.units_per_qp(); unit += plan.warps) {
      [[maybe_unused]] const std::uint32_t share = unit / plan.num_peers;
      detail::UnitQueue<Gin, Warp, Source> queue{gin, warp, args, layer, unit % plan.num_peers};
      if constexpr (SortedReadSource<Source>) {
        const UnitReads own = args.reads.of_unit(layer, qp, unit);
        for (std::uint32_t first = 0; first < own.count; first += kWarpLanes) {
          const std::uint32_t left = own.count - first;
          queue.take(own.reads + first, left < kWarpLanes ? left : kWarpLanes);
        }
      } else {
        for (std::uint64_t round = share;; round += plan.units_per_peer) {
          if (round * plan.num_qps * plan.chunk >= num_reads) break;
          const std::uint64_t base = first_read(plan, qp, round);
          if (base >= num_reads) continue;
          const std::uint64_t left = num_reads - base;
          queue.scan(base, left < plan.chunk ? static_cast<std::uint32_t>(left) : plan.chunk);
        }
      }
      while (queue.pending > 0) {
        const std::uint32_t batch = queue.batch_size();
        const bool last = queue.pending <= batch;
        queue.post_pending(last ? queue.pending : batch, last);
      }
      warp.once([&] {
        auto& ticket = args.ticket(layer, qp, unit);
        ticket.posted = queue.posted;
        ticket.doorbells = queue.doorbells;
        if (queue.posted > 0) ticket.request = gin.flush_async(args.team, queue.peer);
      });
    }
  }
}

/// One warp of block `qp` of the wait kernel for `layer`: returns once all its units' reads have
/// landed, or after reporting failures to `sink` (which keeps the first).
template <GinContext Gin, WarpGroup Warp, ReadSource Source, WaitErrorSink Sink>
ENGRAM_HD void wait_reads(const Gin& gin, Warp& warp, std::uint32_t qp, std::uint32_t warp_index,
                          const FetchArgs<Gin, Source>& args, std::uint32_t layer,
                          Deadline deadline, Sink& sink) {
  const FetchPlan& plan = args.plan;
  const std::uint32_t units = plan.units_per_qp();
  for (std::uint32_t first = warp_index * kWarpLanes; first < units;
       first += plan.warps * kWarpLanes) {
    const std::uint32_t count = units - first < kWarpLanes ? units - first : kWarpLanes;
    warp.for_lanes(count, [&](std::uint32_t lane) {
      const std::uint32_t unit = first + lane;
      auto& ticket = args.ticket(layer, qp, unit);
      if (ticket.posted == 0) return;
      const WaitStatus status = gin.wait(ticket.request, deadline);
      if (status == WaitStatus::ok) return;
      const Rank peer = args.grid.rank_of(args.team, args.self, Peer{unit % plan.num_peers});
      sink.report(WaitError{status, args.self.value, peer.value, qp, layer, 0, ticket.posted});
    });
  }
}

/// Warp `warp_index` of `num_warps` copies the rows of `layer` that loads reach, and writes zeros
/// for index -1. The plain form of the work; a GPU backend may bring a faster kernel for it.
template <GinContext Gin, WarpGroup Warp, ReadSource Source>
ENGRAM_HD void gather_direct(const Gin& gin, Warp& warp, std::uint64_t warp_index,
                             std::uint64_t num_warps, const FetchArgs<Gin, Source>& args,
                             std::uint32_t layer) {
  const std::uint64_t num_reads = args.reads.num_reads(layer);
  for (std::uint64_t i = warp_index; i < num_reads; i += num_warps) {
    const RoutedRead r = args.reads.at(layer, i);
    if (r.path == Path::rdma) continue;
    std::byte* dst = gin.local_pointer(args.buffer, r.dst_offset);
    if (r.path == Path::none) {
      warp.zero(dst, r.bytes);
    } else {
      warp.copy(dst, gin.peer_pointer(Team::lsa, r.peer, args.storage, r.src_offset), r.bytes);
    }
  }
}

}  // namespace engram::core
