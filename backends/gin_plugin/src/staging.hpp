// This rank's memory as messages see it: read into buffers, written from them, added to.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "region.hpp"
#include "wire.hpp"

namespace engram::gin_plugin {

/// One thread, the Remote's executor, uses it; each call returns once the bytes have moved.
class Staging {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Staging>> create(Device& device, Regions& regions,
                                                               Rank self);

  /// The bytes that `entries` name, one after another, to `buffer` (kMaxPayload bytes); how many.
  /// Errors: not_found, out_of_range for an entry that is not in a region of this rank; then
  /// nothing is read.
  [[nodiscard]] Result<std::uint64_t> gather(std::span<const CopyEntry> entries, std::byte* buffer);
  /// The reverse. Errors: as gather(); then nothing is written.
  [[nodiscard]] Result<void> scatter(std::span<const CopyEntry> entries, const std::byte* buffer);
  /// Errors: as gather(), and invalid_argument for an unaligned word.
  [[nodiscard]] Result<void> add(const AddEntry& entry);
  /// Any copies between registered memory and buffers; `copies` is used up.
  [[nodiscard]] Result<void> run(std::vector<Copy>& copies);

 private:
  Staging(Regions& regions, Rank self, std::unique_ptr<Engine> engine)
      : regions_(regions), self_(self), engine_(std::move(engine)) {}
  Result<std::byte*> own_memory(const CopyEntry& entry) const;
  Result<void> wait_for(BatchId batch);

  Regions& regions_;
  Rank self_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace engram::gin_plugin
