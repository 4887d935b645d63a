// One rank's communicator, and the runs made on it one after another.
#pragma once

#include <memory>
#include <optional>

#include "engram/core/backend.hpp"
#include "engram/nccl/driver.hpp"
#include "engram/nccl/nccl_backend.hpp"
#include "engram/nccl/nccl_transport.hpp"

namespace engram::nccl {

class RankSession {
 public:
  /// Collective. Errors: as make_nccl.
  [[nodiscard]] static Result<std::unique_ptr<RankSession>> create(rendezvous::Rendezvous& ranks,
                                                                   const NcclOptions& options);
  ~RankSession();  ///< collective: closes the communicator

  [[nodiscard]] const core::Capabilities& capabilities() const { return capabilities_; }
  [[nodiscard]] const core::RankGrid& grid() const { return communicator_->grid(); }
  [[nodiscard]] CommunicatorFacts facts() const;
  /// Collective. Errors: the first that a rank's `main` returned, with the rank in front.
  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main);

 private:
  RankSession() = default;
  std::shared_ptr<const DriverApi> driver_;
  std::optional<Communicator> communicator_;
  core::Capabilities capabilities_;
  TransportOptions transport_options_;
  std::optional<Error> broken_;  ///< why no further run is possible
};

}  // namespace engram::nccl
