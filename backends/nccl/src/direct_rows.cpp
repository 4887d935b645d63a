#include "direct_rows.hpp"

#include <algorithm>

namespace engram::nccl {
namespace {

using core::Path;

/// The next layers that go into one launch, with all but their plan.
DirectGather group_layers(const DirectRowsInput& in, std::uint32_t first, Bytes& span) {
  DirectGather gather;
  gather.first_layer = first;
  const std::uint64_t row = in.places[first].row_bytes;
  const std::uint64_t layer_bytes = in.shape.per_layer() * row;
  std::uint32_t count = 0;
  for (; first + count < in.shape.layers && count < kernels::kMaxLayers; ++count) {
    const core::LayerPlace& place = in.places[first + count];
    const bool follows = in.dst_base[first + count] == in.dst_base[first] + count * layer_bytes;
    if (place.row_bytes != row || !follows) break;
    gather.args.layers[count] = {
        kernels::FastDivide(std::max<std::uint64_t>(1, place.rows_per_rank)),
        static_cast<std::int64_t>(place.rows), place.base_offset, 0};
    span += place.rows * Bytes{row};
  }
  gather.args.num_layers = static_cast<int>(count);
  gather.args.fetched = in.buffer + in.dst_base[first];
  gather.args.num_tokens = static_cast<std::int64_t>(in.shape.tokens);
  gather.args.entries_per_token = static_cast<int>(in.shape.entries_per_token);
  gather.args.row_bytes = static_cast<int>(row);
  gather.args.error = in.errors;
  gather.args.rank = static_cast<int>(in.router.self.value);
  gather.args.owners.num_owners = static_cast<int>(in.owners.size());
  std::copy_n(in.owners.begin(), std::min<std::size_t>(in.owners.size(), kernels::kInlineOwners),
              gather.args.owners.inline_base.begin());
  return gather;
}

/// Threads that may serve `gather`, and the part of its rows that they reach.
struct Help {
  int threads = 0;
  double share = 1;
};
Help help_for(const DirectRowsInput& in, const DirectGather& gather) {
  const bool fits = in.assist && gather.args.num_rows() <= in.assist->max_rows &&
                    gather.args.fetched_row_bytes() <= in.assist->max_row_bytes &&
                    in.owners.size() <= kernels::kInlineOwners;
  if (!fits || in.host_owners.size() != in.owners.size()) return {};
  std::size_t loads = 0, reached = 0;
  for (std::size_t r = 0; r < in.owners.size(); ++r) {
    loads += in.owners[r] != nullptr;
    reached += in.owners[r] != nullptr && in.host_owners[r] != nullptr;
  }
  if (reached == 0) return {};
  return {in.assist->threads, static_cast<double>(reached) / static_cast<double>(loads)};
}

/// Host threads take the rows they reach; missing rows become zeros there, and only there.
void share_out(const DirectRowsInput& in, DirectGather& gather) {
  gather.assisted = gather.args;
  gather.loads = false;
  gather.args.write_missing = false;
  for (std::size_t r = 0; r < in.owners.size(); ++r) {
    const bool helped = in.owners[r] != nullptr && in.host_owners[r] != nullptr;
    gather.assisted->owners.inline_base[r] = helped ? in.host_owners[r] : nullptr;
    if (helped) gather.args.owners.inline_base[r] = nullptr;
    gather.loads |= in.owners[r] != nullptr && !helped;
  }
}

}  // namespace

kernels::RowPath slowest_load(const core::Router& router) {
  if (router.own == Path::host || router.domain == Path::host) return kernels::RowPath::host;
  const bool peers = router.grid.num_nvlink > 1 && router.domain == Path::nvlink;
  return peers ? kernels::RowPath::nvlink : kernels::RowPath::own_memory;
}

Result<std::vector<DirectGather>> plan_direct_rows(const DirectRowsInput& in) {
  if (in.dst_base.size() != in.shape.layers || in.shape.layers > in.places.size()) {
    return fail(ErrorCode::invalid_argument, "a fetch of ", in.shape.layers, " layers with ",
                in.dst_base.size(), " places for rows, from a table of ", in.places.size());
  }
  std::vector<DirectGather> out;
  for (std::uint32_t layer = 0; layer < in.shape.layers && in.shape.per_layer() > 0;) {
    Bytes span;
    DirectGather gather = group_layers(in, layer, span);
    layer += static_cast<std::uint32_t>(gather.args.num_layers);
    const Help help = help_for(in, gather);
    const auto plan =
        kernels::plan_fetch({.gather = kernels::shape_of(gather.args, in.num_sms,
                                                         in.sm_limit < in.num_sms ? in.sm_limit : 0,
                                                         slowest_load(in.router)),
                             .span = span,
                             .distinct_share = in.distinct_share,
                             .assist_threads = help.threads,
                             .assist_share = help.share});
    if (!plan) return tl::unexpected(plan.error());
    gather.plan = *plan;
    if (plan->assisted) {
      share_out(in, gather);
      gather.plan.assisted = false;  // of what is left
    }
    out.push_back(gather);
  }
  return out;
}

}  // namespace engram::nccl
