#include "engram/kernels/gather_scales.hpp"

#include <algorithm>

#include "gather_scales_device.cuh"
#include "launch.cuh"

namespace engram::kernels {

Result<void> launch_gather_scales(const GatherScalesArgs& args, cudaStream_t stream, Launch mode) {
  if (args.num_tokens < 0 || args.entries_per_token < 0 || args.packs_per_row < 1) {
    return fail(ErrorCode::invalid_argument, "scales of ", args.num_tokens, " tokens of ",
                args.entries_per_token, " entries of ", args.packs_per_row, " packs");
  }
  if (args.owners.num_owners < 1 ||
      (args.owners.device_base == nullptr && args.owners.num_owners > kInlineOwners)) {
    return fail(ErrorCode::invalid_argument, "scales of ", args.owners.num_owners, " owners; 1 to ",
                kInlineOwners, " without a device array");
  }
  const auto reach = static_cast<unsigned __int128>(args.entries_per_owner.divisor) *
                     static_cast<unsigned>(args.owners.num_owners);
  if (args.num_rows < 0 || static_cast<unsigned __int128>(args.num_rows) > reach) {
    return fail(ErrorCode::invalid_argument, "scales of ", args.num_rows, " rows over ",
                args.owners.num_owners, " owners of ", args.entries_per_owner.divisor);
  }
  const bool row_major = args.layout == ScaleLayout::row_major;
  const std::int64_t columns = std::int64_t{args.entries_per_token} * args.packs_per_row;
  const std::int64_t column = row_major ? args.num_tokens : scale_column(args.num_tokens);
  const std::int64_t num_packs = columns * column;
  if (num_packs == 0) return {};
  const auto blocks =
      static_cast<std::uint32_t>(std::min<std::int64_t>((num_packs + 255) / 256, 1 << 20));
  return launch_kernel(row_major ? gather_scales_kernel<ScaleLayout::row_major>
                                 : gather_scales_kernel<ScaleLayout::column_major>,
                       blocks, 256, {.stream = stream, .mode = mode}, "gather_scales", args,
                       FastDivide(static_cast<std::uint64_t>(row_major ? columns : column)),
                       FastDivide(static_cast<std::uint64_t>(args.packs_per_row)),
                       static_cast<std::uint64_t>(num_packs));
}

}  // namespace engram::kernels
