// The barrier of one NVLink domain, by signed words in the ranks' workspaces.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/nccl/communicator.hpp"
#include "engram/nccl/lsa_barrier_args.hpp"

namespace engram::nccl {

/// One rank's end of it. Stores made by earlier work on the stream are visible to all ranks' work
/// that follows on theirs.
class LsaBarrier {
 public:
  /// Where its state lies in the workspace: behind the words of core/barrier_protocol.hpp.
  static constexpr Bytes kOffset{4096};

  /// Collective. `window` holds the workspace at its start, in GPU memory.
  /// Errors, on every rank: out_of_range when the window ends before the state or the domain is too
  /// large; internal with CUDA's words.
  [[nodiscard]] static Result<LsaBarrier> create(Communicator& communicator,
                                                 const RegisteredWindow& window);
  LsaBarrier(LsaBarrier&&) noexcept = default;
  LsaBarrier& operator=(LsaBarrier&&) noexcept = default;

  /// Returns at once. Errors: internal with CUDA's words.
  [[nodiscard]] Result<void> enqueue(cudaStream_t stream, Nanos limit);
  /// After the stream has passed the barrier.
  /// Errors: timed_out, naming the ranks not seen; the barrier cannot be used after it.
  [[nodiscard]] Result<void> check() const;

 private:
  LsaBarrier() = default;
  struct FreeHost {
    void operator()(LsaBarrierError* p) const { cudaFreeHost(p); }
  };
  LsaBarrierArgs args_{};
  core::RankGrid grid_;
  Rank rank_;
  std::unique_ptr<LsaBarrierError, FreeHost> error_;
};

/// "barrier 7 of rank 0: 1 of 3 words seen; ranks 2, 3 missing". Pure.
[[nodiscard]] std::string describe(const LsaBarrierError& error, const core::RankGrid& grid,
                                   Rank self);

}  // namespace engram::nccl
