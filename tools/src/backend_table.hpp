// The backends of this build, by the name a scenario gives them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/core/table.hpp"
#include "engram/tools/scenario.hpp"
#include "platform.hpp"

namespace engram::tools {

/// What a run asks of a backend beside its scenario.
struct BackendNeeds {
  Fidelity fidelity = Fidelity::message;
  /// Set: rows are shown to this check as they arrive instead of being kept.
  std::function<bool(Rank, std::uint64_t offset, std::span<const std::byte>)> row_check;
  /// Whether events go to the trace at this moment; null = no trace.
  const bool* tracing = nullptr;
  class TraceSink* trace = nullptr;
  const core::TableLayout* table = nullptr;  ///< for faults that name a row
  /// Where a backend that tells link loads puts its ear: true = a stretch that counts begins, false
  /// = it ends.
  std::shared_ptr<std::function<void(bool begins)>> measured;
  /// Where a backend that can tells what it had counted when the run failed.
  std::shared_ptr<core::BackendStats> until_failure;
};

/// Keeps what the backend points at alive.
struct MadeBackend {
  std::shared_ptr<void> keeps;
  std::unique_ptr<core::Backend> backend;  ///< destroyed first
  /// Set where this process plays one rank of several: which, and how the ranks' blocks come
  /// together (collective; by rank).
  std::optional<Rank> rank;
  std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte> mine)>
      gather;
};

/// Errors: unsupported for a backend that this build or machine lacks, naming those it has;
/// whatever the backend refuses.
[[nodiscard]] Result<MadeBackend> make_backend(const Scenario& scenario, const Platform& platform,
                                               const BackendNeeds& needs);

}  // namespace engram::tools
