// NCCL's communicator, its windows and its device communicator, with failures that reach all ranks.
#pragma once

#include <nccl_device/core.h>
#include <nccl_device/host.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/core/transport.hpp"
#include "engram/core/units.hpp"
#include "engram/nccl/device_plan.hpp"
#include "engram/nccl/library.hpp"
#include "engram/nccl/window_memory.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::nccl {

struct CommunicatorOptions {
  int device = 0;  ///< CUDA device of this rank
  DeviceOptions device_options;
  NcclSettings settings;
  Nanos call_limit = std::chrono::seconds(60);  ///< of each collective call of NCCL
  /// Told what must not pass silently, such as a destruction without the final barrier. By default
  /// it goes to stderr.
  std::function<void(std::string_view)> warn;
};

/// A window that all ranks have registered; kernels take `handle`.
struct RegisteredWindow {
  ncclWindow_t handle = nullptr;
  std::byte* base = nullptr;  ///< this rank's own bytes
  Bytes size;
  /// By position in the LSA team: where that rank's window starts in this process. Its own entry
  /// may differ from `base`: both reach the same bytes.
  std::vector<std::byte*> lsa_base;

  /// Null where no load or store reaches `peer`, a position in the LSA team.
  [[nodiscard]] std::byte* lsa_pointer(Peer peer, Bytes offset) const {
    return peer.value < lsa_base.size() ? lsa_base[peer.value] + offset.count : nullptr;
  }
};

/// Life: create or adopt -> register_window for each -> open_device -> use -> close. After
/// release() it may register and open anew. All calls are collective, in the same order on all
/// ranks, from one thread a rank. The rendezvous must outlive it.
class Communicator {
 public:
  /// Rank 0's unique id travels by the rendezvous.
  /// Errors, on every rank: unsupported or invalid_argument as plan_device; internal with NCCL's
  /// words; timed_out when NCCL does not return.
  [[nodiscard]] static Result<Communicator> create(std::shared_ptr<const NcclLibrary> library,
                                                   rendezvous::Rendezvous& ranks,
                                                   const CommunicatorOptions& options);
  /// Uses a framework's communicator, which stays its own: close() does not destroy it.
  /// Errors: as create; invalid_argument when its ranks or device differ from the rendezvous's.
  [[nodiscard]] static Result<Communicator> adopt(std::shared_ptr<const NcclLibrary> library,
                                                  rendezvous::Rendezvous& ranks, ncclComm_t comm,
                                                  const CommunicatorOptions& options);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Without close(): warns and aborts the communicator, for peers may still reach into it.
  ~Communicator();

  [[nodiscard]] const ncclCommProperties_t& properties() const;
  [[nodiscard]] const DevicePlan& plan() const;
  [[nodiscard]] const core::RankGrid& grid() const;
  [[nodiscard]] Rank rank() const;
  [[nodiscard]] const NcclLibrary& library() const;
  [[nodiscard]] rendezvous::Rendezvous& ranks() const;
  [[nodiscard]] const CommunicatorOptions& options() const;
  [[nodiscard]] ncclComm_t handle() const;

  /// Registers `memory`, which must outlive this. The reference stays valid until close().
  /// Errors: unsupported, before NCCL is entered, when it would hang or refuse: imported segments
  /// without NCCL_SYM_REUSE_SYSMEM_HANDLES=1, an elastic window of several ranks with it (peers'
  /// bytes would be wrong), host segments with NCCL_ELASTIC_BUFFER_REGISTER=0, a
  /// window past NCCL_WIN_STRIDE; else internal or timed_out.
  [[nodiscard]] Result<const RegisteredWindow*> register_window(const WindowMemory& memory);

  /// Creates the device communicator of plan(). Once. Errors: internal, timed_out.
  [[nodiscard]] Result<void> open_device();
  /// With QPs of this number and depth instead of the options'. Ignored without a network.
  [[nodiscard]] Result<void> open_device(const core::QueueShape& queues);
  /// Kernels take a copy. Precondition: open_device() succeeded.
  [[nodiscard]] const ncclDevComm_t& device() const;

  /// What went wrong in NCCL's own threads since (a dead network thread leaves waits without end).
  [[nodiscard]] Result<void> async_error() const;

  /// Waits for the device, then a barrier; then deregisters the windows and destroys the device
  /// communicator, and keeps the communicator. Errors: as close().
  [[nodiscard]] Result<void> release();
  /// Waits for the device, then the final barrier; then deregisters the windows and destroys the
  /// device communicator and, if created here, the communicator.
  /// Errors: the first of a step that failed; the later steps are still made, save that without the
  /// barrier nothing is deregistered and the communicator is aborted.
  [[nodiscard]] Result<void> close();

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::nccl
