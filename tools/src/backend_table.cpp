#include "backend_table.hpp"

#include <algorithm>
#include <array>

#include "engram/loopback/loopback.hpp"
#include "engram/model/lanes.hpp"
#include "fault_target.hpp"
#ifdef ENGRAM_HAVE_SIMGRID
#include "engram/sim_backend/sim_backend.hpp"
#include "sim_options.hpp"
#endif
#ifdef ENGRAM_HAVE_NCCL
#include "nccl_options.hpp"
#endif

namespace engram::tools {
namespace {

Result<MadeBackend> make_loopback(const Scenario& scenario, const Platform& platform,
                                  const BackendNeeds&) {
  loopback::LoopbackOptions options;
  options.grid = platform.grid;
  options.seed = scenario.run.seed;
  for (const Fault& fault : scenario.faults) {
    const auto refuse = [&](const char* key, const std::string& why) {
      return fail(ErrorCode::invalid_argument, scenario.where(fault.key + key), ": ", why,
                  " on the loopback backend; the sim backend knows all faults");
    };
    if (fault.kind != FaultKind::rank_dead) {
      return refuse(".kind",
                    fmt::format("{} is not available; accepted: rank_dead", name_of(fault.kind)));
    }
    if (fault.at > Nanos{0}) {
      return refuse(".at",
                    fmt::format("a rank is dead from the start, not from {} ns on; accepted: "
                                "\"0 ns\"",
                                fault.at.count()));
    }
    auto target = parse_target(scenario, fault);
    if (!target) return at_key(scenario, fault.key + ".target", target.error());
    if (options.dead_rank) return refuse(".target", "a second dead rank is not available");
    options.dead_rank = std::get<RanksTarget>(*target).ranks.front();
  }
  return MadeBackend{nullptr, loopback::make_loopback(options), {}, {}};
}

#ifdef ENGRAM_HAVE_SIMGRID
Result<MadeBackend> make_sim(const Scenario& scenario, const Platform& platform,
                             const BackendNeeds& needs) {
  auto trace = make_sim_trace(needs, platform);
  auto options = sim_options(scenario, platform, needs, trace.get());
  if (!options) return tl::unexpected(options.error());
  auto made = sim_backend::make_sim(std::move(*options));
  if (!made) return tl::unexpected(made.error());
  return MadeBackend{std::move(trace), std::move(*made), {}, {}};
}
#endif

#ifdef ENGRAM_HAVE_NCCL
Result<MadeBackend> make_nccl(const Scenario& scenario, const Platform& platform,
                              const BackendNeeds&) {
  if (!scenario.faults.empty()) {
    return fail(ErrorCode::invalid_argument, scenario.where(scenario.faults.front().key),
                ": the nccl backend injects none; the sim backend does");
  }
  return make_nccl_backend(scenario, platform);
}
#endif

struct Entry {
  const char* name;
  Result<MadeBackend> (*make)(const Scenario&, const Platform&, const BackendNeeds&);
};
constexpr Entry kBackends[] = {
    {"loopback", make_loopback},
#ifdef ENGRAM_HAVE_SIMGRID
    {"sim", make_sim},
#endif
#ifdef ENGRAM_HAVE_NCCL
    {"nccl", make_nccl},
#endif
};

}  // namespace

Result<MadeBackend> make_backend(const Scenario& scenario, const Platform& platform,
                                 const BackendNeeds& needs) {
  std::string names;
  for (const Entry& entry : kBackends) {
    if (scenario.run.backend == entry.name) return entry.make(scenario, platform, needs);
    names += names.empty() ? entry.name : std::string(", ") + entry.name;
  }
  return fail(ErrorCode::unsupported, scenario.where("run.backend"),
              ": this build has no backend '", scenario.run.backend, "'; it has ", names);
}

}  // namespace engram::tools
