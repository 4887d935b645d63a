// What the self-test does on each rank.
#pragma once

#include <nlohmann/json.hpp>

#include "engram/nccl/communicator.hpp"
#include "engram/nccl/driver.hpp"
#include "engram/nccl/library.hpp"
#include "engram/rendezvous/rendezvous.hpp"

namespace engram::nccl::selftest {

struct Machine {
  std::shared_ptr<const DriverApi> driver;
  std::shared_ptr<const NcclLibrary> library;
  rendezvous::Rendezvous* ranks;
};

/// A window of `kind` registered, every byte of every piece of every LSA peer read by a kernel.
/// The JSON holds `wrong_words` and what was made of what; never an error for wrong bytes.
[[nodiscard]] Result<nlohmann::json> check_window(const Machine& machine,
                                                  Communicator& communicator,
                                                  const WindowShape& shape);

/// Barriers in a row with plain stores between them, in a stream and in a graph; then one that a
/// rank stays away from, which must name it.
[[nodiscard]] Result<nlohmann::json> check_barrier(const Machine& machine,
                                                   Communicator& communicator);

/// A window that NCCL must not be given with these settings: the refusal's text.
[[nodiscard]] Result<nlohmann::json> check_refusal(const Machine& machine,
                                                   Communicator& communicator,
                                                   const WindowShape& shape);

/// The communicator's handle adopted, used, closed; the communicator itself goes on. Then one that
/// is destroyed without close(): it must warn.
[[nodiscard]] Result<nlohmann::json> check_life(const Machine& machine, Communicator& communicator);

/// One rank's failure while a window is made must reach all ranks, in bounded time.
[[nodiscard]] Result<nlohmann::json> check_failure(const Machine& machine,
                                                   const CommunicatorOptions& options);

}  // namespace engram::nccl::selftest
