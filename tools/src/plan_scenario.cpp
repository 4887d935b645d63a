#include <algorithm>

#include "engram/tools/run.hpp"
#include "explain.hpp"
#include "fetch_run.hpp"
#include "figures.hpp"

namespace engram::tools {
namespace {

core::FetchLimits limits_of(const model::Profile& profile) {
  core::FetchLimits limits;
  limits.nic_reads = profile.nic.read_rate;
  limits.reads_in_flight = profile.nic.outstanding_reads;
  limits.max_qps = limits.num_sms = std::max(1u, profile.gpu.sms);
  limits.max_depth = profile.nic.max_queue_depth;
  limits.warps_per_block = std::max(1u, profile.gpu.warps_per_block);
  return limits;
}

PlanLine line(std::string group, std::string name, double value, std::string unit,
              std::string formula, std::string roof = {}) {
  return {std::move(group), std::move(name),    value,
          std::move(unit),  std::move(formula), std::move(roof)};
}

}  // namespace

Result<PlanResult> plan_scenario(const Scenario& scenario) {
  auto platform = make_platform(scenario);
  if (!platform) return tl::unexpected(platform.error());
  auto setup = make_fetch_setup(scenario, *platform);
  if (!setup) return tl::unexpected(setup.error());
  auto workload = Workload::create(scenario);
  if (!workload) return tl::unexpected(workload.error());

  PlanResult result;
  result.title = fmt::format("{} on {} ({} of {}), {}", name_of(scenario.run.operation),
                             counted(platform->grid.num_ranks(), "rank"),
                             counted(platform->grid.num_rdma, "domain"), platform->grid.num_nvlink,
                             scenario.cluster.profile);
  std::vector<core::PlanStep> steps;
  auto plan = core::EngramTable::plan(platform->grid, setup->table, setup->largest,
                                      limits_of(platform->profile), setup->options, &steps);
  if (!plan) return at_key(scenario, plan_key(plan.error()), plan.error());
  for (const core::PlanStep& step : steps) {
    result.lines.push_back(line("fetch", step.name, std::stod(step.value), "", step.formula));
  }
  const Bytes receive = core::EngramTable::receive_bytes(setup->table, setup->largest);
  auto window = core::WindowLayout::create(platform->grid, setup->options.placement,
                                           setup->table.segment_bytes(), receive);
  if (!window) return at_key(scenario, "table", window.error());
  const auto bytes = [&](std::string name, Bytes size, std::string formula) {
    result.lines.push_back(
        line("buffers", std::move(name), static_cast<double>(size.count), "B", std::move(formula)));
  };
  bytes("workspace", window->workspace().size, "fixed for all settings");
  bytes(
      "receive", window->buffer().size,
      fmt::format("{} x {} x {} a token, aligned to 2 MiB", counted(setup->largest.layers, "layer"),
                  counted(setup->largest.tokens, "token"), setup->largest.entries_per_token));
  bytes("segment", window->stride(), "one rank's rows, aligned to 2 MiB");
  bytes("storage window", window->storage_window_bytes(),
        counted(window->num_segments(), "segment"));

  // The floors of rank 0's real indices; others draw from the same distribution.
  core::PathCapabilities paths;
  auto router = core::make_router(platform->grid, Rank{0}, setup->options.placement, setup->table,
                                  *window, paths, setup->options.compat);
  if (!router) return tl::unexpected(router.error());
  const IndexBatch drawn = workload->draw(Rank{0});
  const IndexBatch batch = scenario.fetch.dedup ? without_repeats(drawn) : drawn;
  if (scenario.fetch.dedup) {
    const auto num_rows = [](const IndexBatch& of) {
      return std::ranges::count_if(of.rows, [](std::int64_t row) { return row >= 0; });
    };
    result.lines.push_back(line("fetch", "rows read once", static_cast<double>(num_rows(batch)), "",
                                fmt::format("of {} that rank 0 asks for", num_rows(drawn))));
  }
  if (scenario.fetch.assist_threads > 0) {
    result.lines.push_back(line("fetch", "assist threads", scenario.fetch.assist_threads, "",
                                "gather host rows where the planner finds that they pay"));
  }
  std::uint64_t reads[core::kNumPaths] = {};
  for (std::uint32_t l = 0; l < batch.layers; ++l) {
    for (const std::int64_t row : batch.layer(LayerIndex{l})) {
      ++reads[static_cast<std::size_t>(router->route(l, row).path)];
    }
  }
  model::FetchLoad load;
  load.row = setup->table.shape(LayerIndex{0}).row;
  load.local_rows = reads[static_cast<std::size_t>(core::Path::local)];
  load.nvlink_rows = reads[static_cast<std::size_t>(core::Path::nvlink)];
  load.host_rows = reads[static_cast<std::size_t>(core::Path::host)];
  load.rdma_reads = load.served_reads = reads[static_cast<std::size_t>(core::Path::rdma)];
  load.qps = plan->num_qps * plan->num_peers;
  load.sms = plan->direct_blocks;
  bool first = true;
  for (const model::Floor& floor : floors_of(load, platform->profile, setup->options.placement)) {
    result.lines.push_back(line("floors", floor.name, microseconds(floor.time), "us", floor.formula,
                                first ? floor.name : ""));
    first = false;
  }
  return result;
}

}  // namespace engram::tools
