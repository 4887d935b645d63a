// A collective call of NCCL that cannot leave this rank waiting for one that has failed.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/nccl/library.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::nccl {

struct GuardedCall {
  std::string what;           ///< for messages: "ncclDevCommCreate"
  std::optional<int> device;  ///< made current on the calling thread
  Nanos limit = std::chrono::seconds(60);
  std::function<Result<void>()> call;  ///< must own what it uses: it may outlive this frame
  std::function<void()> give_up;       ///< makes NCCL return from `call`; may be empty
};

/// Collective: agrees that all ranks are `ready`, runs the call on a thread of its own, agrees on
/// its outcome. When a peer reports failure meanwhile, or the limit passes, it gives the call up; a
/// call that does not return even then is left behind with its thread.
/// Errors, on every rank: the first failing rank's.
[[nodiscard]] Result<void> run_guarded(rendezvous::Rendezvous& ranks, const Result<void>& ready,
                                       GuardedCall guarded);

}  // namespace engram::nccl
