// One rank's transport on a GPU: NVLink loads, host loads and NCCL's GPU-initiated network.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "engram/core/transport.hpp"
#include "engram/nccl/communicator.hpp"
#include "engram/nccl/driver.hpp"
#include "engram/nccl/stream_fetch.hpp"
#include "engram/nccl/versioned_fetch.hpp"

namespace engram::nccl {

/// What a communicator offers: the network where NCCL has a GIN type, loads within the NVLink
/// domain. Errors: internal with CUDA's words.
[[nodiscard]] Result<core::Capabilities> capabilities_of(const Communicator& communicator);

struct TransportOptions {
  /// Host threads that may gather rows of host memory; they are started, and spin, once a fetch
  /// could use them. 16 and more reach what they can (host_assist.hpp). 0: none.
  int assist_threads = 0;
};

/// What a kernel of one's own needs to drive NCCL's device API on the open windows.
struct DeviceHandles {
  ncclDevComm_t comm{};
  ncclWindow_t storage = nullptr, buffer = nullptr;
  std::byte* storage_base = nullptr;  ///< our own window, on this GPU
  std::byte* buffer_base = nullptr;
  std::uint64_t cycles_per_us = 1;  ///< of the GPU's clock, which counts its deadlines
};

/// Host calls block by polling events; now() is the steady clock. An engine that wants no host in
/// its way asks prepare() for a StreamFetch instead.
class NcclTransport final : public core::Transport {
 public:
  /// `communicator` outlives it; release() or close() it before this is destroyed, for its windows
  /// lie in memory that this owns.
  NcclTransport(std::shared_ptr<const DriverApi> driver, Communicator& communicator,
                core::Capabilities capabilities, const TransportOptions& options = {});
  ~NcclTransport() override;

  [[nodiscard]] const core::Capabilities& capabilities() const override;
  [[nodiscard]] Rank rank() const override;
  [[nodiscard]] const core::RankGrid& grid() const override;
  [[nodiscard]] Nanos now() const override;
  /// Refuses generated storage: a GPU reads memory.
  [[nodiscard]] Result<void> open(const core::WindowLayout& layout, const core::QueueShape& queues,
                                  std::optional<core::SegmentFunction> segment) override;
  [[nodiscard]] Result<void> write_segment(Bytes offset, std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<void> read_buffer(Bytes offset, std::span<std::byte> out) const override;
  [[nodiscard]] Result<core::Ticket> post(const core::FetchPost& fetch) override;
  [[nodiscard]] Result<core::IssueCounts> issued(core::Ticket ticket, Nanos limit) override;
  [[nodiscard]] Result<void> wait(core::Ticket ticket, LayerIndex layer, Nanos limit) override;
  [[nodiscard]] Result<void> barrier(Nanos limit) override;

  /// A fetch for streams and graphs, of windows that are open. Errors: those of
  /// StreamFetch::create; invalid_argument before open().
  [[nodiscard]] Result<StreamFetch> prepare(const StreamFetchSetup& setup) const;
  /// The same for rows that change meanwhile. Errors: those of VersionedFetch::create.
  [[nodiscard]] Result<VersionedFetch> prepare(const VersionedFetchSetup& setup) const;
  /// Errors: invalid_argument before open().
  [[nodiscard]] Result<DeviceHandles> handles() const;
  /// Requests posted so far; completed when every layer was waited for.
  [[nodiscard]] std::uint64_t requests() const;
  [[nodiscard]] std::uint64_t completions() const;
  /// Doorbells that fetches asked for.
  [[nodiscard]] std::uint64_t doorbells() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::nccl
