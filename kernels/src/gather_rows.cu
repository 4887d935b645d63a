#include "engram/kernels/gather_rows.hpp"

#include "check_args.hpp"
#include "cuda_result.hpp"
#include "gather_rows_device.cuh"
#include "launch.cuh"

namespace engram::kernels {
namespace {

using Kernel = void (*)(GatherParams);

template <int kLoad, int kStore, bool kTail, int kLanes>
Kernel pick_open(int in_flight) {
  constexpr int kOpen = kLanes < 8 ? kLanes : 8;
  if (in_flight == 1) return gather_rows_kernel<kLoad, kStore, kLanes, 1, kTail>;
  if (in_flight == kOpen) return gather_rows_kernel<kLoad, kStore, kLanes, kOpen, kTail>;
  return nullptr;
}

template <int kLoad, int kStore, bool kTail>
Kernel pick_lanes(const GatherLaunch& launch) {
  if constexpr (!kTail) {
    switch (launch.lanes) {
      case 1:
        return pick_open<kLoad, kStore, kTail, 1>(launch.in_flight);
      case 2:
        return pick_open<kLoad, kStore, kTail, 2>(launch.in_flight);
      case 4:
        return pick_open<kLoad, kStore, kTail, 4>(launch.in_flight);
      default:
        break;
    }
  }
  switch (launch.lanes) {
    case 8:
      return pick_open<kLoad, kStore, kTail, 8>(launch.in_flight);
    case 16:
      return pick_open<kLoad, kStore, kTail, 16>(launch.in_flight);
    case 32:
      return pick_open<kLoad, kStore, kTail, 32>(launch.in_flight);
    default:
      return nullptr;
  }
}

/// Null when there is no such instance.
Kernel pick(const GatherLaunch& launch, bool tail) {
  if (tail) {
    if (launch.vector_bytes != 16) return nullptr;
    switch (launch.store_bytes) {
      case 16:
        return pick_lanes<16, 16, true>(launch);
      case 8:
        return pick_lanes<16, 8, true>(launch);
      case 4:
        return pick_lanes<16, 4, true>(launch);
      default:
        return nullptr;
    }
  }
  if (launch.store_bytes != launch.vector_bytes) return nullptr;
  switch (launch.vector_bytes) {
    case 16:
      return pick_lanes<16, 16, false>(launch);
    case 8:
      return pick_lanes<8, 8, false>(launch);
    case 4:
      return pick_lanes<4, 4, false>(launch);
    default:
      return nullptr;
  }
}

/// The instance of rows of one chunk that needs no look-up beyond the index; null if there is none.
Kernel pick_simple(const GatherRowsArgs& args, const GatherLaunch& launch, std::uint64_t chunks) {
  if (args.num_layers != 1 || args.order != nullptr || args.tickets != nullptr || chunks != 1 ||
      args.owners.device_base != nullptr || args.tail.row_bytes > 0 || launch.vector_bytes != 16 ||
      launch.store_bytes != 16 || launch.in_flight != 1) {
    return nullptr;
  }
  switch (launch.lanes) {
    case 8:
      return gather_rows_kernel<16, 16, 8, 1, false, true>;
    case 16:
      return gather_rows_kernel<16, 16, 16, 1, false, true>;
    case 32:
      return gather_rows_kernel<16, 16, 32, 1, false, true>;
    default:
      return nullptr;
  }
}

}  // namespace

Result<void> launch_gather_rows(const GatherRowsArgs& args, const GatherLaunch& launch,
                                cudaStream_t stream, Launch mode, cudaEvent_t started) {
  if (auto checked = check_args(args); !checked) return checked;
  if (args.num_rows() == 0) return {};
  const int alignment = shape_of(args, 0, 0).alignment;
  const Kernel kernel = pick(launch, args.tail.row_bytes > 0);
  if (kernel == nullptr || alignment < launch.vector_bytes ||
      args.row_bytes % launch.vector_bytes != 0 ||
      args.fetched_row_bytes() % launch.store_bytes != 0 || launch.threads < 32 ||
      launch.threads > max_threads(launch.in_flight, args.tail.row_bytes > 0) ||
      launch.threads % 32 != 0 || launch.blocks == 0) {
    return fail(ErrorCode::invalid_argument, "gather of rows of ", args.row_bytes, " + ",
                args.tail.row_bytes, " bytes aligned to ", alignment, " by loads of ",
                launch.vector_bytes, ", stores of ", launch.store_bytes, ", ", launch.lanes,
                " lanes, ", launch.in_flight, " in flight, ", launch.blocks, " blocks of ",
                launch.threads, ": no such kernel");
  }
  const int vectors = args.row_bytes / launch.vector_bytes;
  const auto chunks = static_cast<std::uint64_t>((vectors + launch.lanes - 1) / launch.lanes);
  const GatherParams params{
      .args = args,
      .rows_per_layer = FastDivide(static_cast<std::uint64_t>(args.rows_per_layer())),
      .chunks = FastDivide(chunks),
      .num_items = static_cast<std::uint64_t>(args.num_rows()) * chunks,
      .num_vectors = vectors,
      .word_step = vectors % launch.lanes == 0 ? launch.lanes : 1};
  const Kernel simple = pick_simple(args, launch, chunks);
  return launch_kernel(simple != nullptr ? simple : kernel, launch.blocks, launch.threads,
                       {.stream = stream, .mode = mode, .started = started}, "gather_rows", params);
}

Result<void> launch_wait_rows(cudaStream_t stream) {
  return launch_kernel(wait_rows_kernel, 1, 32, {.stream = stream, .mode = Launch::programmatic},
                       "wait_rows");
}

}  // namespace engram::kernels
