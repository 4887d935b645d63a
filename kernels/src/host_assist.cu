#include <algorithm>

#include "host_assist_device.cuh"
#include "launch.cuh"

namespace engram::kernels {

Result<void> launch_assist_kernels(const GatherRowsArgs& args, const AssistShared& shared,
                                   cudaStream_t stream) {
  constexpr std::int64_t kPostBlocks = 32, kCollectBlocks = 64;
  const AssistParams params{
      .args = args,
      .rows_per_layer = FastDivide(static_cast<std::uint64_t>(args.rows_per_layer())),
      .shared = shared};
  const auto post =
      static_cast<std::uint32_t>(std::min((args.num_rows() + 255) / 256, kPostBlocks));
  if (auto done = launch_kernel(assist_post_kernel, post, 256,
                                {.stream = stream, .mode = Launch::plain}, "assist_post", params);
      !done) {
    return done;
  }
  const auto whole = static_cast<std::uintptr_t>(args.fetched_row_bytes()) |
                     reinterpret_cast<std::uintptr_t>(args.fetched);
  const auto collect =
      static_cast<std::uint32_t>(std::min(assist_chunks(args.num_rows()), kCollectBlocks));
  return launch_kernel(whole % 16 == 0  ? assist_collect_kernel<16>
                       : whole % 8 == 0 ? assist_collect_kernel<8>
                                        : assist_collect_kernel<4>,
                       collect, kCollectThreads, {.stream = stream, .mode = Launch::plain},
                       "assist_collect", params);
}

}  // namespace engram::kernels
