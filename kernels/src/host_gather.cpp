// Host side of a host-assisted fetch: rows into staging, past the caches.
#include <algorithm>
#include <cstring>

#include "host_assist_mailbox.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace engram::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;

struct HostRow {
  const std::byte* row = nullptr;
  const std::byte* tail = nullptr;
};

HostRow find_host_row(const GatherRowsArgs& job, std::int64_t position, std::int64_t index) {
  const auto& layer = job.layers[static_cast<std::size_t>(position / job.rows_per_layer())];
  const std::uint64_t owner = layer.entries_per_owner.quotient(static_cast<std::uint64_t>(index));
  const std::uint64_t local =
      static_cast<std::uint64_t>(index) - owner * layer.entries_per_owner.divisor;
  HostRow found;
  found.row = job.owners.inline_base[owner] + layer.base_offset +
              local * static_cast<std::uint64_t>(job.row_bytes);
  if (job.tail.row_bytes > 0) {
    const auto bytes = static_cast<std::uint64_t>(job.tail.row_bytes);
    found.tail = job.tail.replicated
                     ? job.tail.owners.inline_base[0] + layer.tail_offset +
                           static_cast<std::uint64_t>(index) * bytes
                     : job.tail.owners.inline_base[owner] + layer.tail_offset + local * bytes;
  }
  return found;
}

/// Streaming stores spare the lines' read for ownership; the GPU reads them from memory anyway.
void stream_copy(std::byte* dst, const std::byte* src, std::size_t bytes) {
#if defined(__x86_64__)
  if ((reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src) | bytes) %
          16 ==
      0) {
    for (std::size_t at = 0; at < bytes; at += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(src + at)));
    }
    return;
  }
#endif
  std::memcpy(dst, src, bytes);
}

void end_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

void gather_chunk(const GatherRowsArgs& job, const std::int64_t* indices, std::byte* staging,
                  std::int64_t chunk) {
  constexpr int kAhead = 16;  // rows prefetched ahead
  const std::int64_t first = chunk * kAssistChunkRows;
  const auto count =
      static_cast<int>(std::min<std::int64_t>(kAssistChunkRows, job.num_rows() - first));
  const auto row_bytes = static_cast<std::size_t>(job.row_bytes);
  const auto tail_bytes = static_cast<std::size_t>(job.tail.row_bytes);
  HostRow rows[kAssistChunkRows];
  const auto prefetch = [&](int r) {
    if (r >= count || rows[r].row == nullptr) return;
    for (std::size_t at = 0; at < row_bytes; at += kCacheLine) {
      __builtin_prefetch(rows[r].row + at, 0, 0);
    }
  };
  for (int r = 0; r < count; ++r) {
    const std::int64_t index = indices[first + r];
    if (index >= 0) rows[r] = find_host_row(job, first + r, index);
  }
  for (int r = 0; r < kAhead; ++r) prefetch(r);
  for (int r = 0; r < count; ++r) {
    prefetch(r + kAhead);
    std::byte* const dst = staging + static_cast<std::size_t>(first + r) * (row_bytes + tail_bytes);
    if (rows[r].row != nullptr) {
      stream_copy(dst, rows[r].row, row_bytes);
      if (tail_bytes > 0) std::memcpy(dst + row_bytes, rows[r].tail, tail_bytes);
    } else if (indices[first + r] == kAssistNoRow) {
      std::memset(dst, 0, row_bytes + tail_bytes);
    }
  }
  end_streaming();
}

}  // namespace engram::kernels
