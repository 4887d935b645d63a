#include "support/backends.hpp"

#include "engram/loopback/loopback.hpp"
#ifdef ENGRAM_HAVE_SIMGRID
#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/sim_backend/sim_backend.hpp"
#endif

namespace engram::test {
namespace {

std::unique_ptr<core::Backend> loopback_for(const FetchCase& c) {
  loopback::LoopbackOptions options;
  options.grid = *c.grid();
  options.seed = c.seed;
  options.reads_in_flight = c.reads_in_flight;
  options.first_count = c.first_count;
  options.flush_rings = c.flush_rings;
  return loopback::make_loopback(options);
}

#ifdef ENGRAM_HAVE_SIMGRID
std::unique_ptr<core::Backend> sim_for(const FetchCase& c) {
  static const model::Profile platform =
      *model::load_profile("h100-cx7-400", model::default_profile_dirs());
  model::Profile profile = platform;
  profile.nic.outstanding_reads = c.reads_in_flight;
  profile.nic.flush_rings = c.flush_rings;
  model::Cluster cluster;
  cluster.nodes = c.num_rdma;
  cluster.gpus_per_node = c.num_nvlink;
  sim::FabricOptions fabric{profile, *model::single_switch(cluster, profile)};
  fabric.first_request = c.first_count;
  fabric.perturbation.seed = c.seed;
  fabric.perturbation.engine_order = true;
  fabric.perturbation.doorbell = std::chrono::nanoseconds{c.seed % 700};
  fabric.perturbation.completion = std::chrono::nanoseconds{c.seed % 900};
  return *sim_backend::make_sim({.grid = *c.grid(), .fabric = std::move(fabric)});
}
#endif

}  // namespace

const std::vector<BackendKind>& backends() {
  static const std::vector<BackendKind> kinds{
      {"loopback", loopback_for},
#ifdef ENGRAM_HAVE_SIMGRID
      {"sim", sim_for},
#endif
  };
  return kinds;
}

}  // namespace engram::test
