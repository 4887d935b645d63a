#include "engram/nccl/window_pieces.hpp"

#include <algorithm>
#include <iterator>

namespace engram::nccl {
namespace {

constexpr std::uint64_t kMaxWindowBytes = 1ull << 47;

}  // namespace

Result<std::vector<Rank>> sharing_group(const std::vector<Rank>& host_ranks, Rank self,
                                        std::uint32_t sharing_ranks) {
  if (sharing_ranks == 0) return host_ranks;
  const std::uint32_t first = self.value / sharing_ranks * sharing_ranks;
  std::vector<Rank> group;
  std::ranges::copy_if(host_ranks, std::back_inserter(group), [&](Rank rank) {
    return rank.value >= first && rank.value < first + sharing_ranks;
  });
  if (group.size() == sharing_ranks) return group;
  return fail(ErrorCode::unsupported, "hybrid host windows hold one segment a rank of an NVLink ",
              "domain: ranks ", first, " to ", first + sharing_ranks - 1, ", but only ",
              group.size(), " of them are on the host of rank ", self.value,
              "; segments are shared by processes of one host: use direct mode");
}

Result<std::vector<WindowPiece>> pieces_of(const WindowShape& shape, Rank self,
                                           const std::vector<Rank>& host_ranks) {
  const bool host_kind = shape.kind != core::WindowKind::gpu;
  if (host_kind != (shape.segment_bytes.count > 0)) {
    return fail(ErrorCode::invalid_argument, "a window of kind ",
                host_kind ? "elastic or hybrid_elastic" : "gpu", " with host segments of ",
                shape.segment_bytes.count, " B");
  }
  if (!host_kind && shape.gpu_bytes.count == 0) {
    return fail(ErrorCode::invalid_argument, "a window of 0 B");
  }
  const std::uint64_t num_segments = !host_kind                                ? 0
                                     : shape.kind == core::WindowKind::elastic ? 1
                                                                               : host_ranks.size();
  if (shape.gpu_bytes.count > kMaxWindowBytes || shape.segment_bytes.count > kMaxWindowBytes ||
      num_segments * shape.segment_bytes.count > kMaxWindowBytes) {
    return fail(ErrorCode::out_of_range, "a window of ", shape.gpu_bytes.count, " B and ",
                num_segments, " segments of ", shape.segment_bytes.count, " B is over ",
                kMaxWindowBytes, " B");
  }
  std::vector<WindowPiece> pieces;
  Bytes offset{0};
  const auto add = [&](Bytes size, bool on_host, std::optional<Rank> owner) {
    const Bytes aligned = align_up(size, core::kWindowAlignment);
    pieces.push_back({{offset, aligned}, on_host, owner});
    offset += aligned;
  };
  if (shape.gpu_bytes.count > 0) add(shape.gpu_bytes, false, std::nullopt);
  for (std::uint64_t i = 0; i < num_segments; ++i) {
    const bool own = shape.kind == core::WindowKind::elastic || host_ranks[i] == self;
    add(shape.segment_bytes, true, own ? std::nullopt : std::optional(host_ranks[i]));
  }
  return pieces;
}

}  // namespace engram::nccl
