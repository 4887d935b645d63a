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

template <bool kTail>
__device__ __forceinline__ ChunkPlace place_chunk(const GatherParams& p, std::uint64_t item,
                                                  int chunk_bytes, bool reports) {
  const GatherRowsArgs& args = p.args;
  ChunkPlace place;
  std::uint64_t position = item;
  if (p.chunks.divisor != 1) {
    position = p.chunks.quotient(item);
    place.chunk = static_cast<int>(item - position * p.chunks.divisor);
  }
  if (args.order != nullptr) position = load_u32(args.order + position);
  if (args.tickets != nullptr && (load_u32(args.tickets + position) & kFirstCopy) == 0) return place;
  const RowSource row =
      find_row(args, p.rows_per_layer, position, reports && place.chunk == 0);
  const std::uint64_t into_row = static_cast<std::uint64_t>(place.chunk) * chunk_bytes;
  std::byte* const dst = args.fetched + position * args.fetched_row_bytes() + into_row;
  if (row.state == RowState::missing) {
    place.dst = dst;
  } else if (row.state == RowState::present) {
    const std::byte* const base = owner_base(args.owners, row.owner);
    if (base != nullptr) {
      place.src = base + args.layers[row.layer].base_offset +
                  row.local * static_cast<std::uint64_t>(args.row_bytes) + into_row;
      place.dst = dst;
      if constexpr (kTail) {
        if (place.chunk == 0) place.tail = tail_of(args, row);
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
template <int kLoad, int kStore, int kLanes, bool kTail>
__device__ __forceinline__ void gather_one_by_one(const GatherParams& p) {
  const int lane = threadIdx.x % kLanes;
  const std::uint64_t num_groups = static_cast<std::uint64_t>(gridDim.x) * blockDim.x / kLanes;
  std::uint64_t item = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; item < p.num_items; item += num_groups) {
    const ChunkPlace place = place_chunk<kTail>(p, item, kLanes * kLoad, lane == 0);
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

/// kOpen consecutive chunks a lane group and pass: lane i works out address i, all read chunk
/// after chunk, and the next addresses are asked for before the stores wait for the loads.
template <int kLoad, int kStore, int kLanes, int kOpen, bool kTail>
__device__ __forceinline__ void gather_several(const GatherParams& p) {
  static_assert(kOpen <= kLanes, "a lane holds one address");
  const int lane = threadIdx.x % kLanes;
  const unsigned mask = kLanes == 32 ? 0xffff'ffffu
                                     : ((1u << kLanes % 32) - 1) << (threadIdx.x % 32 - lane);
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x / kLanes * kOpen;
  std::uint64_t first =
      (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes * kOpen;
  const auto place_own = [&](std::uint64_t from) {
    return lane < kOpen && from + lane < p.num_items
               ? place_chunk<kTail>(p, from + lane, kLanes * kLoad, true)
               : ChunkPlace{};
  };
  ChunkPlace own = place_own(first);
  while (first < p.num_items) {
    Word<kLoad> v[kOpen];
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      const auto src = reinterpret_cast<const std::byte*>(
          __shfl_sync(mask, reinterpret_cast<unsigned long long>(own.src), u, kLanes));
      const int chunk = __shfl_sync(mask, own.chunk, u, kLanes);
      v[u] = Word<kLoad>{};
      if (src != nullptr && chunk * kLanes + lane < p.num_vectors) {
        v[u] = load_global<kLoad>(src + lane * kLoad);
      }
    }
    first += stride;
    const ChunkPlace next = place_own(first);
    if constexpr (kTail) {
      if (own.dst != nullptr && own.chunk == 0) {
        for (int word = 0; word * kStore < p.args.tail.row_bytes; ++word) {
          copy_tail_word<kStore>(p.args, own, word);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kOpen; ++u) {
      const auto dst = reinterpret_cast<std::byte*>(
          __shfl_sync(mask, reinterpret_cast<unsigned long long>(own.dst), u, kLanes));
      const int chunk = __shfl_sync(mask, own.chunk, u, kLanes);
      if (dst != nullptr && chunk * kLanes + lane < p.num_vectors) {
        store_pieces<kLoad, kStore>(dst + lane * kLoad, v[u]);
      }
    }
    own = next;
  }
}

/// Threads a block may have, and blocks that must fit an SM: 32 registers one by one, 64 else.
constexpr int max_threads(int open) { return open == 1 ? 256 : 1024; }
constexpr int min_blocks(int open) { return open == 1 ? 8 : 1; }

template <int kLoad, int kStore, int kLanes, int kOpen, bool kTail>
__global__ void __launch_bounds__(max_threads(kOpen), min_blocks(kOpen))
    gather_rows_kernel(const __grid_constant__ GatherParams p) {
  allow_next_kernel();
  wait_for_previous_kernel();
  if constexpr (kOpen == 1) {
    gather_one_by_one<kLoad, kStore, kLanes, kTail>(p);
  } else {
    gather_several<kLoad, kStore, kLanes, kOpen, kTail>(p);
  }
}

__global__ void wait_rows_kernel() { wait_for_previous_kernel(); }

}  // namespace engram::kernels
