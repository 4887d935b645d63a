#include "engram/kernels/gather_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace engram::kernels {
namespace {

constexpr int kFewSmThreads = 1024;
constexpr int kFewSmThreadsSplit = 896;  // rows with tails need more registers a thread
constexpr int kManySmThreads = 256;
// In address order the rows open at once lie close together; how close is best was measured: 2^20
// rows over 16 GiB by 2, 4, 8, 16 SMs 30, 40, 38, 38 GB/s; 12,288 rows over 2 GiB by 4, 8, 16, 32,
// 64 and all SMs 137, 144, 100, 81.5, 81.5 and 119 us, ordering included (docs/results/gather.md).
constexpr int kOrderedHostSms = 4;
constexpr int kSmallOrderedHostSms = 32;
// A row that comes again right after its first copy, as ordering makes it, costs this part of one;
// one that is skipped for its first copy still takes a place among the open ones. 12,288 and 2^20
// rows, Zipf 1.0 over 2 GiB: 57 and 2350 us in order, 66 and 2410 us as distinct rows in order.
constexpr double kRepeatInOrder = 0.18;
constexpr double kSkippedInOrder = 0.12;
constexpr std::int64_t kLargeOwnFetch = 32 << 20;  // bytes: several passes of all SMs
constexpr double kHostLink = 51.4e9;
constexpr double kNvlink = 372e9;
constexpr double kOwnMemory = 1.9e12;
constexpr std::uint64_t kHostBlock = 64 * 1024;  // what one translation covers

int widest_vector(int alignment) { return std::clamp(alignment, 4, 16); }

/// The most lanes that leave the fewest idle: 33 vectors run on 8 lanes, 16 on 16, 64 on 32.
int lanes_for(int vectors) {
  if (vectors < 8) return static_cast<int>(std::bit_ceil(static_cast<unsigned>(vectors)));
  const auto slots = [vectors](int lanes) { return (vectors + lanes - 1) / lanes * lanes; };
  int best = 32;
  for (const int lanes : {16, 8}) {
    if (slots(lanes) < slots(best)) best = lanes;
  }
  return best;
}

struct Point {
  double gib;
  double per_second;
};

/// Between measured points a straight line over log2(size); flat outside them.
template <std::size_t N>
double interpolate(const std::array<Point, N>& points, double gib) {
  if (gib <= points.front().gib) return points.front().per_second;
  for (std::size_t i = 1; i < N; ++i) {
    if (gib > points[i].gib) continue;
    const double along =
        std::log2(gib / points[i - 1].gib) / std::log2(points[i].gib / points[i - 1].gib);
    return points[i - 1].per_second + along * (points[i].per_second - points[i - 1].per_second);
  }
  return points.back().per_second;
}

// Random 256-byte rows a second beyond the reach of 512 MiB, and new 64 KiB blocks a second when
// rows come in address order (2 GiB: a lower bound, the link was the limit).
constexpr std::array<Point, 6> kRandomRows{
    {{0.5, 200e6}, {0.75, 190e6}, {1, 110e6}, {2, 60e6}, {4, 45e6}, {16, 31.5e6}}};
constexpr std::array<Point, 2> kOrderedBlocks{{{2, 170e6}, {16, 38e6}}};

Nanos seconds(double s) { return Nanos{static_cast<std::int64_t>(std::llround(s * 1e9))}; }

/// Launches included, as nodes of a graph.
Nanos order_cost(FetchOrder order, std::int64_t num_rows) {
  switch (order) {
    case FetchOrder::as_given:
      return Nanos{0};
    case FetchOrder::by_page_small:
      return Nanos{7'000 + num_rows * 7 / 10};
    case FetchOrder::by_page_sort:
      return Nanos{45'000 + num_rows / 25};
  }
  return Nanos{0};
}

Nanos unique_cost(std::int64_t num_rows) { return Nanos{11'000 + num_rows / 14}; }

/// Every row is written once more from the first copy, at the rate of own memory.
Nanos expand_cost(std::int64_t num_rows, int row_bytes) {
  return seconds(2e-6 + static_cast<double>(num_rows) * row_bytes / kOwnMemory);
}

Nanos estimate(const FetchShape& shape, std::int64_t num_rows, bool ordered) {
  const int row_bytes = shape.gather.row_bytes + shape.gather.tail_bytes;
  if (shape.gather.path == RowPath::host) {
    return estimate_host_gather(num_rows, row_bytes, shape.span, ordered);
  }
  const double rate = shape.gather.path == RowPath::nvlink ? kNvlink : kOwnMemory;
  return seconds(2.9e-6 + static_cast<double>(num_rows) * row_bytes / rate);
}

FetchOrder cheapest_order(std::int64_t num_rows) {
  return num_rows <= kMaxBlockOrderedRows ? FetchOrder::by_page_small : FetchOrder::by_page_sort;
}

}  // namespace

Result<GatherLaunch> plan_gather(const GatherShape& shape) {
  if (shape.num_rows < 0 || shape.row_bytes <= 0 || shape.row_bytes % 4 != 0 ||
      shape.tail_bytes < 0 || shape.tail_bytes % 4 != 0) {
    return fail(ErrorCode::invalid_argument, "gather of ", shape.num_rows, " rows of ",
                shape.row_bytes, " + ", shape.tail_bytes, " bytes: rows are multiples of 4 bytes");
  }
  if (shape.alignment < 4) {
    return fail(ErrorCode::invalid_argument, "gather from or to addresses aligned to ",
                shape.alignment, " bytes: 4 are needed");
  }
  GatherLaunch launch;
  const auto low_bit = [](int n) { return n & -n; };
  const int whole = shape.row_bytes + shape.tail_bytes;
  launch.vector_bytes = widest_vector(std::min(low_bit(shape.row_bytes), shape.alignment));
  launch.store_bytes = launch.vector_bytes;
  if (shape.tail_bytes > 0) {
    if (shape.row_bytes % 16 != 0 || shape.alignment < 16) {
      return fail(ErrorCode::invalid_argument, "split rows of ", shape.row_bytes, " + ",
                  shape.tail_bytes, " bytes aligned to ", shape.alignment,
                  ": the first part must be a multiple of 16 bytes and aligned so");
    }
    launch.store_bytes = widest_vector(low_bit(whole));
  }
  const int vectors = shape.row_bytes / launch.vector_bytes;
  launch.lanes = lanes_for(vectors);
  if (shape.tail_bytes > 0) launch.lanes = std::max(launch.lanes, 8);

  const bool few = shape.sm_limit > 0 && shape.sm_limit < shape.num_sms;
  const bool several =
      few || (shape.path == RowPath::own_memory && shape.num_rows * whole >= kLargeOwnFetch);
  if (several) launch.lanes = std::max(launch.lanes, 2);  // one lane alone has one chunk open
  const int few_threads = shape.tail_bytes > 0 ? kFewSmThreadsSplit : kFewSmThreads;
  launch.threads = several ? few_threads : kManySmThreads;
  launch.in_flight = several ? std::min(8, launch.lanes) : 1;
  const std::int64_t chunks = shape.num_rows * ((vectors + launch.lanes - 1) / launch.lanes);
  const std::int64_t chunks_a_block =
      static_cast<std::int64_t>(launch.threads / launch.lanes) * launch.in_flight;
  const std::int64_t wanted =
      std::max<std::int64_t>(1, (chunks + chunks_a_block - 1) / chunks_a_block);
  const std::int64_t most = few       ? shape.sm_limit
                            : several ? shape.num_sms
                                      : (std::int64_t{1} << 30);
  launch.blocks = static_cast<std::uint32_t>(std::min(wanted, most));
  return launch;
}

Nanos estimate_host_gather(std::int64_t num_rows, int row_bytes, Bytes span, bool ordered) {
  const double rows = static_cast<double>(num_rows);
  const double gib = static_cast<double>(span.count) / static_cast<double>(kGiB.count);
  const double wire = rows * row_bytes / kHostLink;
  double translation = 0;
  if (!ordered) {
    if (gib > 0.5) translation = rows / interpolate(kRandomRows, gib);
  } else if (gib > 0.5) {
    const double blocks = static_cast<double>(span.count / kHostBlock + 1);
    translation = blocks * -std::expm1(-rows / blocks) / interpolate(kOrderedBlocks, gib);
  }
  return seconds(3e-6 + std::max(wire, translation));
}

Nanos estimate_host_assist(std::int64_t num_rows, int row_bytes, int threads) {
  const double rate = 33.5e9 * std::min(1.0, threads / 16.0);
  return seconds(2e-6 + static_cast<double>(num_rows) * row_bytes / rate);
}

double estimate_distinct_share(std::span<const std::int64_t> indices, std::size_t sample) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t index : indices.first(std::min(sample, indices.size()))) {
    if (index >= 0) rows.push_back(index);
  }
  if (rows.empty()) return 1.0;
  std::ranges::sort(rows);
  const auto distinct = std::unique(rows.begin(), rows.end()) - rows.begin();
  return static_cast<double>(distinct) / static_cast<double>(rows.size());
}

Result<FetchPlan> plan_fetch(const FetchShape& shape) {
  const auto direct = plan_gather(shape.gather);
  if (!direct) return tl::unexpected(direct.error());
  const std::int64_t rows = shape.gather.num_rows;
  const int row_bytes = shape.gather.row_bytes + shape.gather.tail_bytes;

  FetchPlan best{.gather = *direct, .expected = estimate(shape, rows, false)};
  const auto consider = [&best](FetchPlan plan) {
    if (plan.expected < best.expected) best = plan;
  };
  auto ordered_shape = shape.gather;
  const int limit = shape.gather.sm_limit;
  const int sms = rows > kMaxBlockOrderedRows ? kOrderedHostSms : kSmallOrderedHostSms;
  ordered_shape.sm_limit = limit > 0 ? std::min(limit, sms) : sms;
  const auto ordered = plan_gather(ordered_shape);
  if (!ordered) return tl::unexpected(ordered.error());

  const bool can_number = rows < (std::int64_t{1} << 31);
  const bool host = shape.gather.path == RowPath::host;
  const FetchOrder order = cheapest_order(rows);
  const double share = shape.distinct_share.value_or(1.0);
  const auto as_many = [rows](double part) {
    return static_cast<std::int64_t>(std::ceil(part * static_cast<double>(rows)));
  };
  if (host && can_number) {
    const auto in_order = as_many(share + (1 - share) * kRepeatInOrder);
    consider({.order = order,
              .gather = *ordered,
              .expected = order_cost(order, rows) + estimate(shape, in_order, true)});
  }
  const bool may_repeat =
      host || (shape.gather.path == RowPath::nvlink && rows >= 100'000 && share <= 0.5);
  if (may_repeat && can_number && share < 1.0) {
    const std::int64_t distinct = as_many(share);
    const Nanos extra = unique_cost(rows) + expand_cost(rows, row_bytes);
    consider(
        {.unique = true, .gather = *direct, .expected = extra + estimate(shape, distinct, false)});
    if (host) {
      consider({.order = order,
                .unique = true,
                .gather = *ordered,
                .expected = extra + order_cost(order, rows) +
                            estimate(shape, as_many(share + (1 - share) * kSkippedInOrder), true)});
    }
  }
  if (host && shape.assist_threads > 0) {
    // Both at once: the slower of the two ends it.
    const auto helped = static_cast<std::int64_t>(shape.assist_share * static_cast<double>(rows));
    consider(
        {.assisted = true,
         .gather = *direct,
         .expected = std::max(estimate_host_assist(helped, row_bytes, shape.assist_threads),
                              helped < rows ? estimate(shape, rows - helped, false) : Nanos{0})});
  }
  return best;
}

}  // namespace engram::kernels
