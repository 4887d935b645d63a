#include "engram/sim_backend/sim_backend.hpp"

#include "executor.hpp"

namespace engram::sim_backend {
namespace {

class Sim final : public core::Backend {
 public:
  explicit Sim(SimOptions options) : options_(std::move(options)) {
    const model::Profile& profile = options_.fabric.profile;
    capabilities_.backend = "sim";
    capabilities_.paths = options_.paths;
    capabilities_.simulated_time = true;
    capabilities_.deterministic = true;
    capabilities_.generated_storage = true;
    capabilities_.ordered_completions = profile.nic.ordered_completions;
    core::FetchLimits& limits = capabilities_.limits;
    if (profile.nic.read_rate.value > 0) limits.nic_reads = profile.nic.read_rate;
    limits.reads_in_flight = profile.nic.outstanding_reads;
    limits.max_depth = profile.nic.max_queue_depth;
    limits.max_qps = std::max(1u, profile.gpu.sms);
    limits.num_sms = std::max(1u, profile.gpu.sms);
    limits.warps_per_block = std::max(1u, profile.gpu.warps_per_block);
  }
  [[nodiscard]] const core::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const core::RankGrid& grid() const override { return options_.grid; }
  [[nodiscard]] Result<core::BackendStats> run(const core::RankMain& main) override {
    return SimExecutor(options_, capabilities_).run(main);
  }

 private:
  SimOptions options_;
  core::Capabilities capabilities_;
};

}  // namespace

Result<std::unique_ptr<core::Backend>> make_sim(SimOptions options) {
  for (std::uint32_t r = 0; r < options.grid.num_ranks(); ++r) {
    if (options.fabric.topology.nic(Rank{r}, 0)) continue;
    return fail(ErrorCode::invalid_argument, "rank ", r, " of ", options.grid.num_ranks(),
                " has no NIC in the topology, which names ", options.fabric.topology.num_ranks(),
                " ranks");
  }
  return std::make_unique<Sim>(std::move(options));
}

}  // namespace engram::sim_backend
