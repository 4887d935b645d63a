#include "engram/kernels/unique_rows.hpp"

#include <algorithm>
#include <bit>

#include "check_args.hpp"
#include "launch.cuh"
#include "unique_rows_device.cuh"

namespace engram::kernels {
namespace {

constexpr std::int64_t kMaxUniqueRows = std::int64_t{1} << 30;  // a slot has 31 bits, half are used

/// tickets | slots | first, each aligned to 256 bytes.
struct UniqueLayout {
  std::uint64_t num_slots, ticket_bytes, slot_bytes;
  explicit UniqueLayout(std::int64_t num_rows)
      : num_slots(
            std::bit_ceil(std::max<std::uint64_t>(64, 2 * static_cast<std::uint64_t>(num_rows)))),
        ticket_bytes(align_up({static_cast<std::uint64_t>(num_rows) * 4}, {256}).count),
        slot_bytes(align_up({num_slots * 8}, {256}).count) {}
  [[nodiscard]] std::uint64_t total() const { return ticket_bytes + slot_bytes + num_slots * 4; }
};

Result<UniqueParams> make_params(const GatherRowsArgs& args, void* workspace, Bytes given) {
  if (auto checked = check_args(args); !checked) return tl::unexpected(checked.error());
  if (args.num_rows() >= kMaxUniqueRows) {
    return fail(ErrorCode::invalid_argument, "unique rows of ", args.num_rows(), "; fewer than ",
                kMaxUniqueRows, " go into one fetch");
  }
  const UniqueLayout layout(args.num_rows());
  if (workspace == nullptr || given.count < layout.total()) {
    return fail(ErrorCode::invalid_argument, "unique rows of ", args.num_rows(), " need ",
                layout.total(), " bytes of workspace, given ", given.count);
  }
  auto* const base = static_cast<std::byte*>(workspace);
  UniqueParams p{
      .args = args,
      .rows_per_layer =
          FastDivide(static_cast<std::uint64_t>(std::max<std::int64_t>(1, args.rows_per_layer()))),
      .first_row = {},
      .tickets = reinterpret_cast<std::uint32_t*>(base),
      .slots = reinterpret_cast<unsigned long long*>(base + layout.ticket_bytes),
      .first = reinterpret_cast<std::uint32_t*>(base + layout.ticket_bytes + layout.slot_bytes),
      .mask = static_cast<std::uint32_t>(layout.num_slots - 1)};
  std::uint64_t row = 0;
  for (int l = 0; l < args.num_layers; ++l) {
    p.first_row[l] = row;
    row += static_cast<std::uint64_t>(args.layers[l].num_rows);
  }
  return p;
}

std::uint32_t blocks_for(std::int64_t threads) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>((threads + 255) / 256, 1 << 20));
}

}  // namespace

Bytes unique_workspace(std::int64_t num_rows) { return {UniqueLayout(num_rows).total()}; }

Result<void> prepare_unique_rows(std::int64_t num_rows, void* workspace, cudaStream_t stream) {
  const UniqueLayout layout(num_rows);
  return check_cuda(cudaMemsetAsync(static_cast<std::byte*>(workspace) + layout.ticket_bytes, 0,
                                    layout.slot_bytes, stream),
                    "emptying the table of unique rows");
}

Result<void> launch_mark_unique(const GatherRowsArgs& args, void* workspace, Bytes workspace_bytes,
                                cudaStream_t stream, Launch mode) {
  const auto params = make_params(args, workspace, workspace_bytes);
  if (!params) return tl::unexpected(params.error());
  if (args.num_rows() == 0) return {};
  return launch_kernel(mark_unique_kernel, blocks_for(args.num_rows()), 256,
                       {.stream = stream, .mode = mode}, "mark_unique", *params);
}

Result<void> launch_expand_unique(const GatherRowsArgs& args, void* workspace,
                                  Bytes workspace_bytes, cudaStream_t stream, Launch mode) {
  const auto params = make_params(args, workspace, workspace_bytes);
  if (!params) return tl::unexpected(params.error());
  if (args.num_rows() == 0) return {};
  const auto whole = static_cast<std::uintptr_t>(args.fetched_row_bytes()) |
                     reinterpret_cast<std::uintptr_t>(args.fetched);
  const auto run = [&](auto* wide, auto* narrow, int word) {
    const bool few = args.fetched_row_bytes() <= 4 * word;
    return launch_kernel(few ? narrow : wide, blocks_for(args.num_rows() * (few ? 4 : 16)), 256,
                         {.stream = stream, .mode = mode}, "expand_unique", *params);
  };
  if (whole % 16 == 0) return run(expand_unique_kernel<16, 16>, expand_unique_kernel<16, 4>, 16);
  if (whole % 8 == 0) return run(expand_unique_kernel<8, 16>, expand_unique_kernel<8, 4>, 8);
  return run(expand_unique_kernel<4, 16>, expand_unique_kernel<4, 4>, 4);
}

}  // namespace engram::kernels
