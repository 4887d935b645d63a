// A fetch issued on a CUDA stream and waited for later on a stream: what an engine builds on.
//
//   auto fetch = StreamFetch::create(communicator, windows, setup);   // allocates; once
//   fetch->issue(indices, stream);         // compute runs meanwhile, on other streams
//   fetch->wait(LayerIndex{0}, compute);   // work after it on `compute` may read layer 0
//
// Both launches can be captured into a CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engram/core/transport.hpp"
#include "engram/kernels/gather_scales.hpp"
#include "engram/kernels/host_assist.hpp"
#include "engram/nccl/communicator.hpp"

namespace engram::nccl {

/// The two registered windows of a table, as core::WindowLayout divides them. They stay registered
/// while a fetch is in use.
struct FetchWindows {
  const RegisteredWindow* storage = nullptr;
  const RegisteredWindow* buffer = nullptr;
  core::WindowLayout layout;
  /// Our storage window as this process's CPU reads it; null: it is GPU memory.
  const std::byte* host_storage = nullptr;
};

/// The scales of a layer's fp8 rows, replicated on this GPU: they never cross the network.
struct FetchScales {
  LayerIndex layer;
  const std::uint32_t* packs = nullptr;  ///< device, [rows of the layer, packs_per_row]
  int packs_per_row = 0;
  kernels::ScaleLayout layout = kernels::ScaleLayout::row_major;
  std::uint32_t* out = nullptr;  ///< device, in `layout`; rows of -1 yield zeros
};

/// Everything of a fetch but its indices; fixed for the life of a StreamFetch.
struct StreamFetchSetup {
  core::Router router;   ///< its layers are copied
  core::FetchPlan plan;  ///< `direct_blocks`: SMs that rows reached by loads may hold
  core::IndexShape shape;
  std::vector<std::uint64_t> dst_base;  ///< [layers], in the buffer window
  /// Distinct rows / rows of the fetches to come, where the caller knows (estimate_distinct_share):
  /// the planner reads each distinct row once where that pays.
  std::optional<double> distinct_share{};
  /// Host threads that may gather rows of this node's host memory, where the planner finds them
  /// faster; shared by fetches that follow one another. Null: none.
  std::shared_ptr<kernels::HostAssist> assist{};
  std::vector<FetchScales> scales{};  ///< gathered beside the rows, by issue()
};

class StreamFetch {
 public:
  /// Allocates and plans. The communicator's device is open and current.
  /// Errors: invalid_argument, naming the number that does not fit; unsupported for GPU rows that
  /// hybrid mode would read through the network; internal with CUDA's words.
  [[nodiscard]] static Result<StreamFetch> create(const Communicator& communicator,
                                                  const FetchWindows& windows,
                                                  const StreamFetchSetup& setup);
  StreamFetch(StreamFetch&&) noexcept;
  StreamFetch& operator=(StreamFetch&&) noexcept;
  ~StreamFetch();  ///< waits for nothing: call it when nothing of this fetch runs any more

  /// Starts reading the rows that `indices` (device, [layers, tokens, entries], -1 = no row) name.
  /// An index out of range yields zeros and a record. When this part of the stream has run, all
  /// network reads are posted and all rows reached by loads are there; no SM is held after it.
  /// One issue at a time: the next comes after the waits of this one, on the same stream or behind
  /// an event. Nothing is allocated or synchronised.
  [[nodiscard]] Result<void> issue(const std::int64_t* indices, cudaStream_t stream);
  /// Work after it on `stream` sees the rows of `layer`. A network wait that passes `limit` leaves
  /// a record and ends. A capture that holds the wait holds the issue as well, unless both use one
  /// stream.
  [[nodiscard]] Result<void> wait(LayerIndex layer, cudaStream_t stream,
                                  Nanos limit = std::chrono::seconds(100));
  /// Once the stream has passed the wait: what went wrong since the last call.
  /// Errors: timed_out or peer_lost naming rank, peer and QP; out_of_range naming layer, token and
  /// slot.
  [[nodiscard]] Result<void> check();

  [[nodiscard]] bool uses_network() const;
  /// Network reads posted by the last issue, which has run, and the doorbells that the protocol
  /// asked for. Errors: internal with CUDA's words.
  [[nodiscard]] Result<core::IssueCounts> count_posted() const;
  /// How rows reached by loads are read, a launch each; `assisted`: host threads do their part.
  [[nodiscard]] std::vector<kernels::FetchPlan> plans() const;
  [[nodiscard]] const StreamFetchSetup& setup() const;

 private:
  class Impl;
  explicit StreamFetch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::nccl
