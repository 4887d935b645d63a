// Device code of gather_rows.hpp.
#pragma once

#include "memory_device.cuh"
#include "place_row_device.cuh"

namespace engram::kernels {

/// One chunk of one row. dst == null: nothing to do; src == null: zeros.
struct ChunkPlace {
  const std::byte* src = nullptr;
  const std::byte* tail = nullptr;
  std::byte* dst = nullptr;
  int chunk = 0;
};

__device__ __forceinline__ const std::byte* tail_of(const GatherRowsArgs& args,
                                                    const RowSource& row) {
  const std::uint64_t offset = args.layers[row.layer].tail_offset;
  const std::uint64_t bytes = args.tail.row_bytes;
  return args.tail.replicated
             ? args.tail.owners.inline_base[0] + offset + row.index * bytes
             : owner_base(args.tail.owners, row.owner) + offset + row.local * bytes;
}

/// A chunk's row number, asked for but not yet looked at.
struct ChunkIndex {
  bool wanted = false;
  int chunk = 0;
  std::uint64_t position = 0;
  std::int64_t index = 0;
};

/// kSimple: one layer, one chunk a row, rows as they stand, owners' pointers among the arguments.
/// Nothing of it need be looked up then, which saves the default fetch what it can feel.
template <bool kSimple>
__device__ __forceinline__ ChunkIndex ask_chunk(const GatherParams& p, std::uint64_t item) {
  const GatherRowsArgs& args = p.args;
  ChunkIndex asked;
  asked.position = item;
  if constexpr (kSimple) {
    asked.wanted = true;
    asked.index = load_index(args, item);
    return asked;
  }
  if (p.chunks.divisor != 1) {
    asked.position = p.chunks.quotient(item);
    asked.chunk = static_cast<int>(item - asked.position * p.chunks.divisor);
  }
  if (args.order != nullptr) asked.position = load_u32(args.order + asked.position);
  asked.wanted =
      args.tickets == nullptr || (load_u32(args.tickets + asked.position) & kFirstCopy) != 0;
  if (asked.wanted) asked.index = load_index(args, asked.position);
  return asked;
}

template <bool kTail, bool kSimple>
__device__ __forceinline__ ChunkPlace place_chunk(const GatherParams& p, const ChunkIndex& asked,
                                                  int chunk_bytes, bool reports) {
  const GatherRowsArgs& args = p.args;
  ChunkPlace place;
  if (!asked.wanted) return place;
  place.chunk = asked.chunk;
  const RowSource row = find_row<kSimple>(args, p.rows_per_layer, asked.position, asked.index,
                                          reports && asked.chunk == 0);
  const std::uint64_t into_row = static_cast<std::uint64_t>(asked.chunk) * chunk_bytes;
  std::byte* const dst = args.fetched + asked.position * args.fetched_row_bytes() + into_row;
  if (row.state == RowState::missing) {
    place.dst = dst;
  } else if (row.state == RowState::present) {
    const std::byte* const base =
        kSimple ? args.owners.inline_base[row.owner] : owner_base(args.owners, row.owner);
    if (base != nullptr) {
      place.src = base + args.layers[row.layer].base_offset +
                  row.local * static_cast<std::uint64_t>(args.row_bytes) + into_row;
      place.dst = dst;
      if constexpr (kTail) {
        if (asked.chunk == 0) place.tail = tail_of(args, row);
      }
    }
  }
  return place;
}

/// Word `word` of the tail of the row whose first chunk is `place`.
template <int kStore>
__device__ __forceinline__ void copy_tail_word(const GatherRowsArgs& args, const ChunkPlace& place,
                                               int word) {
  Word<kStore> v{};
  if (place.tail != nullptr) v = load_global<kStore>(place.tail + word * kStore);
  store_global<kStore>(place.dst + args.row_bytes + word * kStore, v);
}

/// One chunk a lane group and pass; every lane works out the same address.
template <int kLoad, int kStore, int kLanes, bool kTail, bool kSimple>
__device__ __forceinline__ void gather_one_by_one(const GatherParams& p) {
  const int lane = threadIdx.x % kLanes;
  const std::uint64_t num_groups = static_cast<std::uint64_t>(gridDim.x) * blockDim.x / kLanes;
  std::uint64_t item = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; item < p.num_items; item += num_groups) {
    const ChunkPlace place =
        place_chunk<kTail, kSimple>(p, ask_chunk<kSimple>(p, item), kLanes * kLoad, lane == 0);
    if (place.dst == nullptr) continue;
    const int vector = place.chunk * kLanes + lane;
    Word<kLoad> v{};
    if (place.src != nullptr && vector < p.num_vectors) {
      v = load_global<kLoad>(place.src + lane * kLoad);
    }
    if constexpr (kTail) {
      if (place.chunk == 0) {
        for (int word = lane; word * kStore < p.args.tail.row_bytes; word += kLanes) {
          copy_tail_word<kStore>(p.args, place, word);
        }
      }
    }
    if (vector < p.num_vectors) store_pieces<kLoad, kStore>(place.dst + lane * kLoad, v);
  }
}

/// kOpen consecutive chunks a lane group and pass. Lane i works out address i; then all loads are
/// issued without anything between them that waits, the next row numbers are asked for, and only
/// then do the stores wait. Warps stay whole: groups past the end have nothing to do.
template <int kLoad, int kStore, int kLanes, int kOpen, bool kTail>
__device__ __forceinline__ void gather_several(const GatherParams& p) {
  static_assert(kOpen <= kLanes, "a lane holds one address");
  constexpr unsigned kAll = 0xffff'ffffu;
  constexpr int kGroups = 32 / kLanes;  // of a warp
  const int lane = threadIdx.x % kLanes;
  const std::uint64_t warp =
      (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x / kLanes * kOpen;
  const bool ragged = p.num_vectors % kLanes != 0;
  constexpr int kWords = kLoad / kStore;
  const WordSteps words{kWords == 1 || !ragged ? lane : lane * kWords, p.word_step};
  const int own_offset = static_cast<int>(threadIdx.x) % 32 / kLanes * kOpen + lane;
  std::uint64_t first = warp * kGroups * kOpen;  // the warp's first chunk
  const auto ask_own = [&] {
    const std::uint64_t item = first + own_offset;
    return lane < kOpen && item < p.num_items ? ask_chunk<false>(p, item) : ChunkIndex{};
  };
  const auto from_lane = [](const std::byte* pointer, int u) {
    return reinterpret_cast<std::byte*>(
        __shfl_sync(kAll, reinterpret_cast<unsigned long long>(pointer), u, kLanes));
  };
  ChunkPlace own = place_chunk<kTail, false>(p, ask_own(), kLanes * kLoad, true);
  while (first < p.num_items) {
    const std::byte* src[kOpen];
    bool mine[kOpen];
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      src[u] = from_lane(own.src, u);
      mine[u] = !ragged || __shfl_sync(kAll, own.chunk, u, kLanes) * kLanes + lane < p.num_vectors;
    }
    Word<kLoad> v[kOpen];
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      v[u] = load_apart<kLoad, kStore>(mine[u] && src[u] != nullptr, src[u], words);
    }
    Word<kStore> tail{};
    if constexpr (kTail) tail = load_global_if<kStore>(own.tail != nullptr, own.tail);
    first += stride;
    const ChunkIndex asked = ask_own();
    // Worked out while rows are still on their way: the index lies nearer than they do.
    const ChunkPlace next = place_chunk<kTail, false>(p, asked, kLanes * kLoad, true);
    if constexpr (kTail) {
      if (own.dst != nullptr && own.chunk == 0) {
        for (int word = 1; word * kStore < p.args.tail.row_bytes; ++word) {
          copy_tail_word<kStore>(p.args, own, word);
        }
        store_global<kStore>(own.dst + p.args.row_bytes, tail);
      }
    }
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      std::byte* const dst = from_lane(own.dst, u);
      if (mine[u] && dst != nullptr) store_apart<kLoad, kStore>(dst, words, v[u]);
    }
    own = next;
  }
}

/// Threads a block may have, and blocks that must fit an SM: 32 registers one by one, 64 else; 72
/// beside tails, or a word of a row is spilled and waits for its load at once.
constexpr int max_threads(int open, bool tail) { return open == 1 ? 256 : tail ? 896 : 1024; }
constexpr int min_blocks(int open) { return open == 1 ? 8 : 1; }

template <int kLoad, int kStore, int kLanes, int kOpen, bool kTail, bool kSimple = false>
__global__ void __launch_bounds__(max_threads(kOpen, kTail), min_blocks(kOpen))
    gather_rows_kernel(const __grid_constant__ GatherParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  if constexpr (kOpen == 1) {
    gather_one_by_one<kLoad, kStore, kLanes, kTail, kSimple>(p);
  } else {
    gather_several<kLoad, kStore, kLanes, kOpen, kTail>(p);
  }
}

__global__ void wait_rows_kernel() { wait_for_previous_kernel(); }

}  // namespace engram::kernels
