// The ranks of a job exchange small blocks and agree on failures, over TCP through rank 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/rendezvous/identity.hpp"

namespace engram::rendezvous {

using Block = std::vector<std::byte>;

struct Options {
  /// From the first rank's join to the last one's; rank skew at start belongs here.
  Nanos start_limit = std::chrono::seconds(60);
  /// From the first rank's entry into an operation to the last one's. Rank 0's value counts.
  Nanos operation_limit = std::chrono::seconds(60);
  /// The largest block one rank may give to an operation.
  Bytes max_block = kMiB;
  /// Told, once, when rank 0's name is not found, or its look-up or rank 0's answer takes more than
  /// a second, and the attempts go on.
  std::function<void(const std::string&)> say = {};
};

/// One rank's place in the job. All ranks call the same operations in the same order; one thread a
/// rank. After a lost rank or a passed deadline every further call returns that same error.
class Rendezvous {
 public:
  /// Returns once all ranks have joined; with one rank no socket is opened.
  /// Errors: timed_out, naming the ranks that did not join; invalid_argument when rank 0 refuses
  /// (secret, job, number of ranks or rank differ); io when the address cannot be used.
  [[nodiscard]] static Result<Rendezvous> join(const Identity& identity, const Options& options);

  Rendezvous(Rendezvous&&) noexcept;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  ~Rendezvous();  ///< leaves; ranks that still wait for this one get an error that names it

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] std::uint32_t num_ranks() const;
  [[nodiscard]] const Identity& identity() const;

  /// Each rank's block, by rank; they may differ in size.
  /// Errors: out_of_range past max_block; peer_lost naming the rank; timed_out naming the ranks not
  /// seen; invalid_argument when ranks entered different operations.
  [[nodiscard]] Result<std::vector<Block>> allgather(std::span<const std::byte> mine);
  /// The block of `root`, on every rank. Errors: as allgather.
  [[nodiscard]] Result<Block> broadcast(Rank root, std::span<const std::byte> mine);
  /// Returns once every rank has entered. Errors: as allgather.
  [[nodiscard]] Result<void> barrier();
  /// Success when every rank brings success; else, on every rank, the first failure to arrive, its
  /// text led by "rank N". Does not wait for the others once one has failed. Errors: as allgather.
  [[nodiscard]] Result<void> agree(const Result<void>& mine);

  /// True when rank 0 has already reported a failure that the next operation will return: what a
  /// rank asks while it is inside a call of another library that its peers may never enter.
  [[nodiscard]] bool failure_pending();

  /// `agree` for results with a value: mine, if all succeeded.
  template <class T>
  [[nodiscard]] Result<T> agree_on(Result<T> mine) {
    const Result<void> all =
        agree(mine ? Result<void>{} : Result<void>(tl::unexpected<Error>(mine.error())));
    if (!all) return tl::unexpected<Error>(all.error());
    return mine;
  }
  /// `allgather` of a plain value a rank.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] Result<std::vector<T>> allgather_value(const T& mine) {
    auto blocks = allgather(std::as_bytes(std::span(&mine, 1)));
    if (!blocks) return tl::unexpected<Error>(blocks.error());
    std::vector<T> values(blocks->size());
    for (std::size_t r = 0; r < blocks->size(); ++r) {
      if ((*blocks)[r].size() != sizeof(T)) {
        return fail(ErrorCode::invalid_argument, "rank ", r, " gave ", (*blocks)[r].size(),
                    " bytes, this rank ", sizeof(T));
      }
      std::copy((*blocks)[r].begin(), (*blocks)[r].end(), reinterpret_cast<std::byte*>(&values[r]));
    }
    return values;
  }

 private:
  class Impl;
  explicit Rendezvous(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram::rendezvous
