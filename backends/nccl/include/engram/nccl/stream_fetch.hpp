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
#include <vector>

#include "engram/core/transport.hpp"
#include "engram/nccl/communicator.hpp"

namespace engram::nccl {

/// The two registered windows of a table, as core::WindowLayout divides them. They stay registered
/// while a fetch is in use.
struct FetchWindows {
  const RegisteredWindow* storage = nullptr;
  const RegisteredWindow* buffer = nullptr;
  core::WindowLayout layout;
};

/// Everything of a fetch but its indices; fixed for the life of a StreamFetch.
struct StreamFetchSetup {
  core::Router router;   ///< its layers are copied
  core::FetchPlan plan;  ///< `direct_blocks`: SMs that rows reached by loads may hold
  core::IndexShape shape;
  std::vector<std::uint64_t> dst_base;  ///< [layers], in the buffer window
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
  /// Network reads posted by the last issue, which has run. Errors: internal with CUDA's words.
  [[nodiscard]] Result<std::uint64_t> count_posted() const;
  [[nodiscard]] const StreamFetchSetup& setup() const;

 private:
  class Impl;
  explicit StreamFetch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::nccl
