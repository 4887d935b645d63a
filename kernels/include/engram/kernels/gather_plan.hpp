// How a gather is launched, decided on the host from numbers alone. Figures: one pair of H200 with
// NVLink and PCIe Gen5 x16, November 2026; GB/s = 1e9 B/s.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::kernels {

/// Launch shape of gather_rows. A lane group of `lanes` threads reads one chunk of a row
/// (lanes * vector_bytes) at a time and keeps `in_flight` chunks open.
struct GatherLaunch {
  int vector_bytes = 16;  ///< of one load: 16, 8 or 4
  int store_bytes = 16;   ///< of one store
  int lanes = 16;         ///< 1 .. 32, a power of two
  int in_flight = 1;      ///< 1, or min(8, lanes)
  int threads = 256;      ///< a block
  std::uint32_t blocks = 1;
  friend bool operator==(const GatherLaunch&, const GatherLaunch&) = default;
};

/// Which way rows come.
enum class RowPath { own_memory, nvlink, host };

struct GatherShape {
  std::int64_t num_rows = 0;       ///< of all layers together
  int row_bytes = 0;               ///< without the tail of a split row; multiple of 4
  int tail_bytes = 0;              ///< multiple of 4; 0 = rows are whole
  int alignment = 16;              ///< largest power of two that divides all bases and offsets
  int num_sms = 132;               ///< of the device
  int sm_limit = 0;                ///< SMs the gather may hold; 0 = all
  RowPath path = RowPath::nvlink;  ///< the slowest one in the fetch
};

/// Few SMs: a block of 1024 threads (split rows: 896) an SM, 8 chunks a lane group, 128 KiB: 356 of
/// 371 GB/s on 8 SMs. All SMs: a lane group a row and as many threads as rows need, which saves
/// the default fetch 0.3 us against 8 chunks and costs nothing at 2^20 rows; but large fetches from
/// own memory, which wait for latency rather than a link, keep 8 chunks open on all SMs.
/// Errors: invalid_argument naming the size that is no multiple of 4, or of 16 in a split row.
[[nodiscard]] Result<GatherLaunch> plan_gather(const GatherShape& shape);

enum class FetchOrder {
  as_given,
  by_page_small,  ///< one block orders up to kMaxBlockOrderedRows by page
  by_page_sort,   ///< radix sort of (64 KiB page, position)
};
inline constexpr std::int64_t kMaxBlockOrderedRows = 16384;
inline constexpr int kMaxOrderBuckets = 9216;  ///< counters of the one block, 36 KiB

struct FetchShape {
  GatherShape gather{};
  Bytes span{};  ///< from the first to the last byte that indices may reach there
  std::optional<double> distinct_share{};  ///< distinct rows / rows, where the caller knows it
  int assist_threads = 0;                  ///< of a HostAssist that is ready; 0 = none
  double assist_share = 1.0;  ///< of the rows, that its threads reach; loads do the rest
};

/// What a fetch does, and what the planner expects it to take.
struct FetchPlan {
  FetchOrder order = FetchOrder::as_given;
  bool unique = false;    ///< read each distinct row once
  bool assisted = false;  ///< host threads gather; `order` and `unique` do not apply
  GatherLaunch gather{};
  Nanos expected{0};
};

/// The cheapest strategy by the model below. Rows of own memory are never ordered; over NVLink
/// rows are made unique from 1e5 rows when at most half are distinct.
/// Errors: those of plan_gather.
[[nodiscard]] Result<FetchPlan> plan_fetch(const FetchShape& shape);

/// distinct_share of a fetch like `indices` (-1 = no row, not counted), from its first `sample`
/// ones: a few too many, for rows that come again later are not seen. 1 where there is no row.
[[nodiscard]] double estimate_distinct_share(std::span<const std::int64_t> indices,
                                             std::size_t sample = 1 << 17);

/// Time to read `num_rows` rows of host memory by SM loads. Translation decides: about 512 MiB are
/// within reach at 51.4 GB/s; beyond, random rows come at 60 M/s (2 GiB) falling to 31 M/s
/// (16 GiB), rows in address order at one new 64 KiB block each 1/170 us (2 GiB) to 1/38 us.
[[nodiscard]] Nanos estimate_host_gather(std::int64_t num_rows, int row_bytes, Bytes span,
                                         bool ordered);
/// Time of the host-assisted way, indices to the host included: 2 us and 33.5 GB/s at 16 threads
/// and more.
[[nodiscard]] Nanos estimate_host_assist(std::int64_t num_rows, int row_bytes, int threads);

}  // namespace engram::kernels
