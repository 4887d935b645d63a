// The memory behind a window: one address range made of GPU memory and host segments.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/nccl/driver.hpp"
#include "engram/nccl/library.hpp"
#include "engram/nccl/window_pieces.hpp"
#include "engram/rendezvous/handle_passing.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::nccl {

/// How a physical piece can be handed to another process.
enum class HandleType : std::uint8_t { nccl, fabric, posix_fd };
[[nodiscard]] std::string_view name_of(HandleType type);

/// Maps or unmaps nothing after create(). Bytes start undefined.
class WindowMemory {
 public:
  /// Collective over `ranks`, whose `shape` must be equal. Kind gpu takes ncclMemAlloc; the others
  /// reserve one range, put GPU memory in front and host segments of the NUMA node nearest to
  /// `device` behind it, all reachable by every GPU of this process that can reach them and, the
  /// host segments, by the CPU. FABRIC handles are asked for where the device offers them; where
  /// creation answers "not permitted" or "not supported", POSIX file descriptors.
  /// Errors, on every rank: unsupported (no virtual memory management for host memory), internal
  /// with the driver's word, invalid_argument when shapes or rank counts per host differ.
  [[nodiscard]] static Result<WindowMemory> create(std::shared_ptr<const DriverApi> driver,
                                                   std::shared_ptr<const NcclLibrary> library,
                                                   rendezvous::Rendezvous& ranks, int device,
                                                   const WindowShape& shape,
                                                   const rendezvous::HandlePassing& how = {});
  WindowMemory(WindowMemory&&) noexcept;
  WindowMemory& operator=(WindowMemory&&) noexcept;
  ~WindowMemory();  ///< unmaps and frees; deregister the window first

  [[nodiscard]] std::byte* base() const;
  [[nodiscard]] Bytes size() const;
  [[nodiscard]] const WindowShape& shape() const;
  [[nodiscard]] const std::vector<WindowPiece>& pieces() const;
  /// How each piece was made, in window order.
  [[nodiscard]] const std::vector<HandleType>& handle_types() const;
  /// Whether a piece came from another process; registering such a window hangs unless NCCL runs
  /// with NCCL_SYM_REUSE_SYSMEM_HANDLES=1 (an imported handle cannot be exported again).
  [[nodiscard]] bool has_imported_pieces() const;
  /// The NUMA node of this rank's host segment; 0 where the driver names none.
  [[nodiscard]] int numa_node() const;

 private:
  class Impl;
  explicit WindowMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::nccl
