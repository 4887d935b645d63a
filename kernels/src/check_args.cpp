#include "check_args.hpp"

#include <algorithm>

namespace engram::kernels {
namespace {

/// The largest power of two, up to 16, that divides `n`; 16 for 0.
int alignment_of(std::uint64_t n) {
  const std::uint64_t low = n & (~n + 1);
  return low == 0 || low > 16 ? 16 : static_cast<int>(low);
}

int alignment_of(const RowOwners& owners) {
  int least = 16;
  if (owners.device_base != nullptr) return least;
  for (int o = 0; o < std::min(owners.num_owners, kInlineOwners); ++o) {
    least = std::min(least, alignment_of(reinterpret_cast<std::uintptr_t>(owners.inline_base[o])));
  }
  return least;
}

Result<void> check_owners(const RowOwners& owners, const char* what) {
  if (owners.num_owners < 1 ||
      (owners.device_base == nullptr && owners.num_owners > kInlineOwners)) {
    return fail(ErrorCode::invalid_argument, what, ": ", owners.num_owners, " owners; 1 to ",
                kInlineOwners, " without a device array");
  }
  return {};
}

}  // namespace

GatherShape shape_of(const GatherRowsArgs& args, int num_sms, int sm_limit, RowPath path) {
  int alignment = std::min(alignment_of(reinterpret_cast<std::uintptr_t>(args.fetched)),
                           alignment_of(args.owners));
  for (int l = 0; l < std::clamp(args.num_layers, 0, kMaxLayers); ++l) {
    alignment = std::min(alignment, alignment_of(args.layers[l].base_offset));
    if (args.tail.row_bytes > 0) {
      alignment = std::min(alignment, alignment_of(args.layers[l].tail_offset));
    }
  }
  if (args.tail.row_bytes > 0) alignment = std::min(alignment, alignment_of(args.tail.owners));
  return {.num_rows = args.num_rows(),
          .row_bytes = args.row_bytes,
          .tail_bytes = args.tail.row_bytes,
          .alignment = alignment,
          .num_sms = num_sms,
          .sm_limit = sm_limit,
          .path = path};
}

Result<void> check_args(const GatherRowsArgs& args) {
  if (args.num_layers < 1 || args.num_layers > kMaxLayers) {
    return fail(ErrorCode::invalid_argument, args.num_layers, " layers; 1 to ", kMaxLayers,
                " go into one launch");
  }
  if (args.num_tokens < 0 || args.entries_per_token < 0) {
    return fail(ErrorCode::invalid_argument, args.num_tokens, " tokens of ", args.entries_per_token,
                " entries");
  }
  if (args.row_bytes <= 0 || args.row_bytes % 4 != 0 || args.tail.row_bytes < 0 ||
      args.tail.row_bytes % 4 != 0) {
    return fail(ErrorCode::invalid_argument, "rows of ", args.row_bytes, " + ", args.tail.row_bytes,
                " bytes; multiples of 4 are needed");
  }
  if (auto owners = check_owners(args.owners, "rows"); !owners) return owners;
  if (args.tail.row_bytes > 0) {
    if (args.tail.replicated && args.tail.owners.inline_base[0] == nullptr) {
      return fail(ErrorCode::invalid_argument, "replicated tails without an address");
    }
    if (!args.tail.replicated) {
      if (auto owners = check_owners(args.tail.owners, "tails"); !owners) return owners;
    }
  }
  for (int l = 0; l < args.num_layers; ++l) {
    const auto& layer = args.layers[l];
    const auto reach = static_cast<unsigned __int128>(layer.entries_per_owner.divisor) *
                       static_cast<unsigned>(args.owners.num_owners);
    if (layer.num_rows < 0 || static_cast<unsigned __int128>(layer.num_rows) > reach) {
      return fail(ErrorCode::invalid_argument, "layer ", l, ": ", layer.num_rows, " rows over ",
                  args.owners.num_owners, " owners of ", layer.entries_per_owner.divisor);
    }
  }
  if (args.num_rows() > 0 && (args.indices == nullptr || args.fetched == nullptr)) {
    return fail(ErrorCode::invalid_argument, args.num_rows(), " rows without indices or output");
  }
  return {};
}

}  // namespace engram::kernels
