// Reading and writing rows that change meanwhile, written once for any GinContext and WarpGroup.
//
// A warp takes a batch of reads through three rounds, each complete before the next: versions,
// rows, versions again. A row whose two versions differ, or are odd, is read again, at most
// max_attempts times in all. Every round of reads is one round trip, so this costs three where a
// plain fetch costs one, and the SMs are held until all rows are there: for rows that do change.
#pragma once

#include <cstdint>
#include <cstring>

#include "engram/core/defects.hpp"
#include "engram/core/gin.hpp"
#include "engram/core/row_version.hpp"
#include "engram/core/wait_error.hpp"

namespace engram::core {

template <GinContext Gin>
struct VersionedArgs {
  VersionedReads reads;
  Team team = Team::world;
  Rank self;
  RankGrid grid;
  typename Gin::Window storage, buffer;
  /// Reads a warp takes at a time, 1 to 32. All warps that share a QP together stay below its
  /// depth: warps * batch <= depth.
  std::uint32_t batch = kWarpLanes;
  std::uint32_t max_attempts = 64;
  Deadline deadline;  ///< of each round
  Defects defects;
};

/// A row that kept changing: read `read` saw `version` in the last of `attempts`.
struct ChangingRow {
  std::uint64_t read = 0;
  std::uint32_t version = 0, attempts = 0;
};

/// Where versioned reads report: rounds that failed, rows that kept changing, rows read again.
template <class S>
concept VersionSink = WaitErrorSink<S> &&
    requires(S sink, const ChangingRow& row, std::uint32_t rows) {
  { sink.report_changing(row) } -> std::same_as<void>;
  { sink.count_again(rows) } -> std::same_as<void>;
};

namespace detail {

template <GinContext Gin, WarpGroup Warp, VersionSink Sink>
struct VersionedBatch {
  const Gin& gin;
  Warp& warp;
  const VersionedArgs<Gin>& args;
  Sink& sink;
  std::uint64_t base;
  std::uint32_t count;

  static_assert(sizeof(typename Gin::Request) <= 16);

  [[nodiscard]] static ENGRAM_HD bool has(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1u) != 0;
  }
  ENGRAM_HD void get(const RoutedRead& r, Ring ring) const {
    gin.get(args.team, r.peer, args.storage, r.src_offset, args.buffer, r.dst_offset, r.bytes,
            ring);
  }

  /// Posts what `place` names for the lanes in `far`, the last one to each peer ringing, and waits.
  /// False when a wait failed: reported.
  template <class Places>
  [[nodiscard]] ENGRAM_HD bool read_far(std::uint32_t far, const Places& place) const {
    std::uint64_t* const scratch = warp.scratch();
    warp.for_lanes(count, [&](std::uint32_t lane) { scratch[lane] = place(lane).peer; });
    const std::uint32_t last = warp.ballot(count, [&](std::uint32_t lane) {
      for (std::uint32_t later = lane + 1; later < count; ++later) {
        if (has(far, later) && scratch[later] == scratch[lane]) return false;
      }
      return has(far, lane);
    });
    warp.for_lanes(count, [&](std::uint32_t lane) {
      if (has(far & ~last, lane)) get(place(lane), Ring::later);
    });
    warp.for_lanes(count, [&](std::uint32_t lane) {
      if (!has(last, lane)) return;
      const RoutedRead r = place(lane);
      get(r, Ring::now);
      const typename Gin::Request request = gin.flush_async(args.team, r.peer);
      std::memcpy(scratch + 2 * lane, &request, sizeof(request));
    });
    const std::uint32_t failed = warp.ballot(count, [&](std::uint32_t lane) {
      if (!has(last, lane)) return false;
      typename Gin::Request request;
      std::memcpy(static_cast<void*>(&request), scratch + 2 * lane, sizeof(request));
      const WaitStatus status = gin.wait(request, args.deadline);
      if (status == WaitStatus::ok) return false;
      const Rank peer = args.grid.rank_of(args.team, args.self, Peer{place(lane).peer});
      sink.report(WaitError{status, args.self.value, peer.value, WaitError::kUnset,
                            args.reads.rows_layer, 0, 1});
      return true;
    });
    return failed == 0;
  }

  /// One round: returns once all that `place` names for `lanes` has landed. `words`: 8 bytes each.
  template <class Places>
  [[nodiscard]] ENGRAM_HD bool read(std::uint32_t lanes, bool words, const Places& place) const {
    const std::uint32_t far = warp.ballot(count, [&](std::uint32_t lane) {
      return has(lanes, lane) && place(lane).path == Path::rdma;
    });
    if (far != 0 && !read_far(far, place)) return false;
    const std::uint32_t near = lanes & ~far;
    if (near == 0) return true;
    const auto source = [&](const RoutedRead& r) {
      return gin.peer_pointer(Team::lsa, r.peer, args.storage, r.src_offset);
    };
    warp.fence();
    if (words) {
      warp.for_lanes(count, [&](std::uint32_t lane) {
        if (!has(near, lane)) return;
        const RoutedRead r = place(lane);
        warp.copy_word(gin.local_pointer(args.buffer, r.dst_offset), source(r));
      });
    } else {
      for (std::uint32_t lane = 0; lane < count; ++lane) {
        if (!has(near, lane)) continue;
        const RoutedRead r = place(lane);
        warp.copy_fresh(gin.local_pointer(args.buffer, r.dst_offset), source(r), r.bytes);
      }
    }
    warp.fence();
    return true;
  }

  [[nodiscard]] ENGRAM_HD std::uint32_t landed(std::uint64_t offset) const {
    return static_cast<std::uint32_t>(
        warp.load_word(reinterpret_cast<std::int32_t*>(gin.local_pointer(args.buffer, offset))));
  }
  ENGRAM_HD void zero(std::uint32_t lanes) const {
    for (std::uint32_t lane = 0; lane < count; ++lane) {
      if (!has(lanes, lane)) continue;
      const RoutedRead r = args.reads.row(base + lane);
      warp.zero(gin.local_pointer(args.buffer, r.dst_offset), r.bytes);
    }
  }

  ENGRAM_HD void run() const {
    const auto before = [&](std::uint32_t lane) { return args.reads.before(base + lane); };
    const auto row = [&](std::uint32_t lane) { return args.reads.row(base + lane); };
    const auto after = [&](std::uint32_t lane) { return args.reads.after(base + lane); };
    std::uint32_t pending =
        warp.ballot(count, [&](std::uint32_t lane) { return row(lane).path != Path::none; });
    const std::uint32_t all = count == kWarpLanes ? ~0u : (1u << count) - 1;
    zero(all & ~pending);
    for (std::uint32_t attempt = 0; pending != 0; ++attempt) {
      if (attempt == args.max_attempts) {
        warp.for_lanes(count, [&](std::uint32_t lane) {
          if (!has(pending, lane)) return;
          sink.report_changing({base + lane, landed(after(lane).dst_offset), attempt});
        });
        return zero(pending);
      }
      if (attempt > 0) {
        std::uint32_t again = 0;
        for (std::uint32_t lane = 0; lane < count; ++lane) again += has(pending, lane);
        warp.once([&] { sink.count_again(again); });
      }
      if (!read(pending, true, before)) return;
      const std::uint32_t whole = warp.ballot(count, [&](std::uint32_t lane) {
        return has(pending, lane) && is_whole(landed(before(lane).dst_offset));
      });
      if (!read(whole, false, row) || !read(whole, true, after)) return;
      pending &= ~warp.ballot(count, [&](std::uint32_t lane) {
        if (!has(whole, lane)) return false;
        if (kDefectsBuilt && args.defects.versions_ignored) return true;
        return landed(before(lane).dst_offset) == landed(after(lane).dst_offset);
      });
    }
  }
};

}  // namespace detail

/// Warp `warp_index` of `num_warps` reads its share. A row that kept changing is reported and
/// becomes zeros, so that no reader ever has half a row; after a failed wait the rest of a batch is
/// left.
template <GinContext Gin, WarpGroup Warp, VersionSink Sink>
ENGRAM_HD void read_versioned(const Gin& gin, Warp& warp, const VersionedArgs<Gin>& args,
                              std::uint64_t warp_index, std::uint64_t num_warps, Sink& sink) {
  const std::uint64_t stride = num_warps * args.batch;
  for (std::uint64_t base = warp_index * args.batch; base < args.reads.num_reads; base += stride) {
    const std::uint64_t left = args.reads.num_reads - base;
    const auto count = left < args.batch ? static_cast<std::uint32_t>(left) : args.batch;
    detail::VersionedBatch<Gin, Warp, Sink>{gin, warp, args, sink, base, count}.run();
  }
}

/// A remote change of one row, by one lane. `put_row` posts the row's bytes to `peer` in as many
/// puts as it likes, the last one ringing. `version`: even, greater than the last;
/// `version_offset`: in the peer's storage window, which takes values (one piece of GPU memory).
template <GinContext Gin, class PutRow>
[[nodiscard]] ENGRAM_HD WaitStatus put_versioned(const Gin& gin, Team team, std::uint32_t peer,
                                                 typename Gin::Window storage,
                                                 std::uint64_t version_offset,
                                                 std::uint64_t version, Deadline deadline,
                                                 const PutRow& put_row) {
  gin.put_value(team, peer, storage, version_offset, version - 1, Ring::now);
  if (const WaitStatus begun = gin.flush(deadline); begun != WaitStatus::ok) return begun;
  put_row();
  if (const WaitStatus put = gin.flush(deadline); put != WaitStatus::ok) return put;
  gin.put_value(team, peer, storage, version_offset, version, Ring::now);
  return gin.flush(deadline);
}

}  // namespace engram::core
