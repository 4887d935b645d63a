// How the rows of a fetch that loads reach are read: which launches, by whom, in what order.
// Decided on the host from numbers and addresses; no GPU is asked.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engram/core/fetch_plan.hpp"
#include "engram/core/index_check.hpp"
#include "engram/core/route.hpp"
#include "engram/kernels/fetch_rows.hpp"
#include "engram/kernels/host_assist.hpp"

namespace engram::nccl {

struct DirectRowsInput {
  core::Router router;
  std::span<const core::LayerPlace> places;
  core::IndexShape shape;
  std::span<const std::uint64_t> dst_base;  ///< [layers]
  std::byte* buffer = nullptr;              ///< our buffer window
  /// [ranks]: the owner's segment as this GPU reaches it; null where the network serves it.
  std::vector<const std::byte*> owners;
  /// [ranks] or empty: the same as this process's CPU reaches it; null where it does not.
  std::vector<const std::byte*> host_owners;
  int num_sms = 132;
  int sm_limit = 0;                                  ///< SMs that loads may hold; 0 = all
  std::optional<double> distinct_share;              ///< distinct rows / rows, where known
  std::optional<kernels::HostAssistOptions> assist;  ///< of the host threads that may help
  kernels::ErrorSink errors;
};

/// Layers that one launch of the gather kernels takes: neighbours with rows of one size that lie
/// behind each other. `indices` of both arguments are set at each launch.
struct DirectGather {
  std::uint32_t first_layer = 0;
  kernels::GatherRowsArgs args;
  kernels::FetchPlan plan;
  /// Set when host threads gather: their part. `args` then leaves those rows out.
  std::optional<kernels::GatherRowsArgs> assisted;
  bool loads = true;  ///< whether rows are left for loads
};

/// Which load is the slowest that this router chooses.
[[nodiscard]] kernels::RowPath slowest_load(const core::Router& router);

/// Errors: invalid_argument, naming layers and places that do not fit; those of
/// kernels::plan_fetch.
[[nodiscard]] Result<std::vector<DirectGather>> plan_direct_rows(const DirectRowsInput& input);

}  // namespace engram::nccl
