#include "backend_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "engram/loopback/loopback.hpp"
#include "engram/model/lanes.hpp"
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
    if (fault.kind != FaultKind::rank_dead) {
      return fail(ErrorCode::invalid_argument, scenario.where("fault"),
                  ": the loopback backend knows only rank_dead, not ", name_of(fault.kind),
                  "; the sim backend knows all");
    }
    auto rank = target_rank(scenario, fault);
    if (!rank) return tl::unexpected(rank.error());
    options.dead_rank = *rank;
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
    return fail(ErrorCode::invalid_argument, scenario.where("fault"),
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

Result<Rank> target_rank(const Scenario& scenario, const Fault& fault) {
  constexpr std::string_view kWord = "rank ";
  std::uint32_t rank = 0;
  const std::string_view text = fault.target;
  const bool starts = text.starts_with(kWord);
  const char* end = text.data() + text.size();
  const auto parsed = starts ? std::from_chars(text.data() + kWord.size(), end, rank)
                             : std::from_chars_result{end, std::errc::invalid_argument};
  if (!starts || parsed.ec != std::errc{} || rank >= scenario.num_ranks()) {
    return fail(ErrorCode::invalid_argument, scenario.where("fault"), ": ", name_of(fault.kind),
                ": target '", fault.target, "'; accepted: \"rank N\" with N below ",
                scenario.num_ranks());
  }
  return Rank{rank};
}

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
