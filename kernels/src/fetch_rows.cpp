#include "engram/kernels/fetch_rows.hpp"

#include "engram/kernels/order_rows.hpp"
#include "engram/kernels/unique_rows.hpp"

namespace engram::kernels {
namespace {

constexpr Bytes kPartAlignment{256};

/// The workspace: what unique_rows needs, then what order_rows needs.
struct Parts {
  Bytes unique, order;
};

Result<Parts> parts_of(const GatherRowsArgs& args, const FetchPlan& plan) {
  Parts parts;
  if (plan.unique) parts.unique = align_up(unique_workspace(args.num_rows()), kPartAlignment);
  const auto order = order_workspace(args, plan.order);
  if (!order) return tl::unexpected(order.error());
  parts.order = *order;
  return parts;
}

}  // namespace

Result<Bytes> fetch_workspace(const GatherRowsArgs& args, const FetchPlan& plan) {
  const auto parts = parts_of(args, plan);
  if (!parts) return tl::unexpected(parts.error());
  return parts->unique + parts->order;
}

Result<void> prepare_fetch(const GatherRowsArgs& args, const FetchPlan& plan, void* workspace,
                           cudaStream_t stream) {
  return plan.unique ? prepare_unique_rows(args.num_rows(), workspace, stream) : Result<void>{};
}

Result<void> launch_fetch_rows(GatherRowsArgs args, const FetchPlan& plan, void* workspace,
                               Bytes workspace_bytes, cudaStream_t stream, Launch mode) {
  if (plan.assisted) {
    return fail(ErrorCode::invalid_argument, "a host-assisted plan goes to HostAssist::launch");
  }
  const auto parts = parts_of(args, plan);
  if (!parts) return tl::unexpected(parts.error());
  if (workspace_bytes < parts->unique + parts->order) {
    return fail(ErrorCode::invalid_argument, "fetch of ", args.num_rows(), " rows needs ",
                (parts->unique + parts->order).count, " bytes of workspace, given ",
                workspace_bytes.count);
  }
  auto* const order_space = static_cast<std::byte*>(workspace) + parts->unique.count;
  if (plan.unique) {
    if (auto done = launch_mark_unique(args, workspace, parts->unique, stream, mode); !done) {
      return done;
    }
    args.tickets = static_cast<const std::uint32_t*>(workspace);
    mode = Launch::programmatic;
  }
  if (plan.order != FetchOrder::as_given) {
    if (auto done = launch_order_rows(args, plan.order, order_space, parts->order, stream, mode);
        !done) {
      return done;
    }
    args.order = reinterpret_cast<const std::uint32_t*>(order_space);
    mode = Launch::programmatic;
  }
  if (auto done = launch_gather_rows(args, plan.gather, stream, mode); !done) return done;
  if (!plan.unique) return {};
  return launch_expand_unique(args, workspace, parts->unique, stream, Launch::programmatic);
}

}  // namespace engram::kernels
