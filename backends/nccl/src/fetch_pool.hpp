// Fetches ready to issue, each kept for the next of its shape.
#pragma once

#include <memory>
#include <vector>

#include "cuda_memory.hpp"
#include "engram/nccl/stream_fetch.hpp"

namespace engram::nccl {

/// A fetch with room for its indices on the GPU, and what became of its last issue.
struct PooledFetch {
  explicit PooledFetch(StreamFetch made) : fetch(std::move(made)) {}
  StreamFetch fetch;
  DeviceBytes indices;
  std::vector<bool> waited;  ///< [layers]
  core::IssueCounts posted;
  bool counted = false;
};

class FetchPool {
 public:
  /// Both references outlive it.
  FetchPool(const Communicator& communicator, const FetchWindows& windows, int assist_threads)
      : communicator_(&communicator), windows_(&windows), assist_threads_(assist_threads) {}

  /// One of this shape that is idle, else a new one. Errors: those of StreamFetch::create and
  /// HostAssist::create.
  [[nodiscard]] Result<std::unique_ptr<PooledFetch>> take(const core::FetchPost& post);
  void give_back(std::unique_ptr<PooledFetch> fetch) { idle_.push_back(std::move(fetch)); }

 private:
  [[nodiscard]] Result<std::unique_ptr<PooledFetch>> make(const core::FetchPost& post);
  [[nodiscard]] Result<void> find_help(const core::FetchPost& post);

  const Communicator* communicator_;
  const FetchWindows* windows_;
  int assist_threads_;
  std::shared_ptr<kernels::HostAssist> assist_;
  std::vector<std::unique_ptr<PooledFetch>> idle_;
};

}  // namespace engram::nccl
