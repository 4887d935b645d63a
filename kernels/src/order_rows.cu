#include "engram/kernels/order_rows.hpp"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "check_args.hpp"
#include "launch.cuh"
#include "order_rows_device.cuh"

namespace engram::kernels {
namespace {

constexpr std::uint32_t kSortPageShift = 16;   // 64 KiB, what one translation covers
constexpr std::uint32_t kBlockPageShift = 21;  // 2 MiB: finer gained nothing at 12,288 rows
constexpr std::int64_t kMaxSortedRows = std::int64_t{1} << 31;

PageParams make_pages(const GatherRowsArgs& args, FetchOrder order) {
  PageParams p{.args = args,
               .rows_per_layer = FastDivide(static_cast<std::uint64_t>(args.rows_per_layer())),
               .first_byte = {},
               .shift = order == FetchOrder::by_page_small ? kBlockPageShift : kSortPageShift,
               .last_page = 0,
               .all_served = args.owners.device_base == nullptr,
               .simple = false};
  for (int o = 0; p.all_served && o < args.owners.num_owners; ++o) {
    p.all_served = args.owners.inline_base[o] != nullptr;
  }
  p.simple = p.all_served && args.num_layers == 1 && args.tickets == nullptr;
  std::uint64_t span = 0;
  for (int l = 0; l < args.num_layers; ++l) {
    p.first_byte[l] = span;
    span += static_cast<std::uint64_t>(args.layers[l].num_rows) * args.row_bytes;
  }
  const std::uint64_t most =
      order == FetchOrder::by_page_small ? kMaxOrderBuckets - 1 : (std::uint64_t{1} << 32) - 2;
  while ((span >> p.shift) + 1 > most) ++p.shift;
  p.last_page = static_cast<std::uint32_t>((span >> p.shift) + 1);
  return p;
}

/// order | positions | pages | sorted pages | CUB's storage, each aligned to 256 bytes.
struct SortLayout {
  std::uint64_t array_bytes;
  std::size_t cub_bytes;
  [[nodiscard]] std::uint64_t total() const { return 4 * array_bytes + cub_bytes; }
};

cudaError_t sort_pages(void* storage, std::size_t& storage_bytes, const std::uint32_t* pages,
                       std::uint32_t* sorted_pages, const std::uint32_t* positions,
                       std::uint32_t* order, std::int64_t num_rows, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(storage, storage_bytes, pages, sorted_pages, positions,
                                         order, num_rows, 0, bits, stream);
}

Result<SortLayout> sort_layout(const GatherRowsArgs& args) {
  SortLayout layout{};
  layout.array_bytes = align_up({static_cast<std::uint64_t>(args.num_rows()) * 4}, {256}).count;
  if (auto sized = check_cuda(sort_pages(nullptr, layout.cub_bytes, nullptr, nullptr, nullptr,
                                         nullptr, args.num_rows(), 32, nullptr),
                              "size of the radix sort");
      !sized) {
    return tl::unexpected(sized.error());
  }
  return layout;
}

template <int kRowsPerThread>
Result<void> launch_small(const PageParams& p, std::uint32_t* order, cudaStream_t stream,
                          Launch mode) {
  const std::size_t shared = (p.last_page / kOrderThreads + 1) * kOrderThreads * 4;
  return launch_kernel(order_small_kernel<kRowsPerThread>, 1, kOrderThreads,
                       {.stream = stream, .mode = mode, .shared_bytes = shared}, "order_rows", p,
                       order);
}

}  // namespace

Result<Bytes> order_workspace(const GatherRowsArgs& args, FetchOrder order) {
  switch (order) {
    case FetchOrder::as_given:
      return Bytes{0};
    case FetchOrder::by_page_small:
      return Bytes{static_cast<std::uint64_t>(args.num_rows()) * 4};
    case FetchOrder::by_page_sort:
      break;
  }
  const auto layout = sort_layout(args);
  if (!layout) return tl::unexpected(layout.error());
  return Bytes{layout->total()};
}

Result<void> launch_order_rows(const GatherRowsArgs& args, FetchOrder order, void* workspace,
                               Bytes workspace_bytes, cudaStream_t stream, Launch mode) {
  if (auto checked = check_args(args); !checked) return checked;
  const std::int64_t rows = args.num_rows();
  if (rows == 0 || order == FetchOrder::as_given) return {};
  const std::int64_t most =
      order == FetchOrder::by_page_small ? kMaxBlockOrderedRows : kMaxSortedRows - 1;
  if (rows > most) {
    return fail(ErrorCode::invalid_argument, "ordering ", rows, " rows; this way takes ", most);
  }
  const auto needed = order_workspace(args, order);
  if (!needed) return tl::unexpected(needed.error());
  if (workspace == nullptr || workspace_bytes < *needed) {
    return fail(ErrorCode::invalid_argument, "ordering ", rows, " rows needs ", needed->count,
                " bytes of workspace, given ", workspace_bytes.count);
  }
  const PageParams p = make_pages(args, order);
  auto* const ordered = static_cast<std::uint32_t*>(workspace);
  if (order == FetchOrder::by_page_small) {
    return rows <= 4 * kOrderThreads    ? launch_small<4>(p, ordered, stream, mode)
           : rows <= 12 * kOrderThreads ? launch_small<12>(p, ordered, stream, mode)
                                        : launch_small<16>(p, ordered, stream, mode);
  }
  auto layout = sort_layout(args);
  if (!layout) return tl::unexpected(layout.error());
  auto* const base = static_cast<std::byte*>(workspace);
  const auto array = [&](int i) {
    return reinterpret_cast<std::uint32_t*>(base + i * layout->array_bytes);
  };
  const auto blocks = static_cast<std::uint32_t>(std::min<std::int64_t>((rows + 255) / 256, 1056));
  if (auto keys = launch_kernel(page_keys_kernel, blocks, 256, {.stream = stream, .mode = mode},
                                "page keys", p, array(2), array(1));
      !keys) {
    return keys;
  }
  return check_cuda(
      sort_pages(base + 4 * layout->array_bytes, layout->cub_bytes, array(2), array(3), array(1),
                 array(0), rows, std::bit_width(p.last_page), stream),
      "radix sort of ", rows, " pages");
}

}  // namespace engram::kernels
