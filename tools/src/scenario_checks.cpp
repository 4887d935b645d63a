#include "scenario_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>

#include "engram/model/nearest.hpp"
#include "fault_target.hpp"
#include "names.hpp"

namespace engram::tools {
namespace {

class Checker {
 public:
  Checker(Scenario& scenario, Diagnostics& found) : s_(scenario), found_(found) {}

  void run() {
    const std::vector<std::string> backends{"sim", "loopback", "nccl"};
    const auto& name = s_.run.backend;
    if (std::find(backends.begin(), backends.end(), name) != backends.end()) return;
    const auto close = model::nearest_name(name, backends);
    complain("run.backend", "\"{}\" is not known{}; accepted: {}", name,
             close ? fmt::format(", did you mean \"{}\"?", *close) : "",
             fmt::join(backends, " | "));
  }

  void cluster() {
    const auto& c = s_.cluster;
    const auto domain = s_.gpus_per_domain();
    const std::uint64_t gpus = std::uint64_t{c.nodes} * c.gpus_per_node;
    const std::uint64_t ranks = (std::uint64_t{c.nodes} + c.memory_nodes) * c.gpus_per_node;
    if (ranks > kMostRanks) {
      complain("cluster.nodes", "({} + {} memory) nodes x {} are {} ranks; accepted: at most {}",
               c.nodes, c.memory_nodes, c.gpus_per_node, ranks, kMostRanks);
      return;
    }
    const bool nests =
        domain <= c.gpus_per_node ? c.gpus_per_node % domain == 0 : domain % c.gpus_per_node == 0;
    if (gpus % domain != 0 || !nests) {
      complain("cluster.gpus_per_domain",
               "{} GPUs ({} nodes x {}) do not divide into NVLink domains of {}; accepted: a "
               "divisor of {}, or whole nodes that divide {}",
               gpus, c.nodes, c.gpus_per_node, domain, c.gpus_per_node, c.nodes);
    }
    if (c.memory_nodes > 0 && s_.table.placement != Placement::host) {
      complain("table.placement",
               "\"{}\" needs a GPU, but cluster.memory_nodes = {} have none; "
               "accepted: \"host\"",
               name_of(s_.table.placement), c.memory_nodes);
    }
  }

  void network() {
    auto& n = s_.cluster.network;
    if (n.topology == NetworkKind::file) find_file("cluster.network.file", n.file, "topology");
    if (n.leaves && n.nodes_per_leaf) {
      complain("cluster.network.nodes_per_leaf",
               "cluster.network.leaves is set too; accepted: one of them");
    }
    if (n.lanes.weights.empty() != n.lanes.sl_to_vl.empty()) {
      const bool weights = n.lanes.weights.empty();
      complain(weights ? "cluster.network.lanes.sl_to_vl" : "cluster.network.lanes.weights",
               "cluster.network.lanes.{} is missing; accepted: both",
               weights ? "weights" : "sl_to_vl");
    }
    for (const auto& [level, lane] : n.lanes.sl_to_vl) {
      if (!n.lanes.weights.empty() && !n.lanes.weights.contains(lane)) {
        complain("cluster.network.lanes.sl_to_vl",
                 "service level {} takes lane {}, which has no weight; accepted: {}", level, lane,
                 fmt::join(lanes_of(n.lanes), ", "));
      }
    }
  }

  void table() {
    auto& t = s_.table;
    const bool by_rows = !t.rows.empty();
    const std::string rows_key = by_rows ? "table.rows" : "table.entries_per_rank";
    if (by_rows && s_.places.contains("table.entries_per_rank")) {
      complain("table.rows", "table.entries_per_rank is set too; accepted: one of them");
    }
    const auto listed = by_rows ? t.rows.size() : t.entries_per_rank.size();
    if (listed == 0) complain(rows_key, "is an empty list; accepted: a number a layer");
    if (t.num_layers && listed != 1 && listed != *t.num_layers) {
      complain(rows_key, "has {} numbers for {} layers (table.num_layers); accepted: 1 or {}",
               listed, *t.num_layers, *t.num_layers);
      return;
    }
    const auto row = t.row_bytes();
    const std::string row_key = t.row_size ? "table.row_bytes" : "table.hidden";
    if (row > 2 * kGiB) {
      complain(row_key, "a row of {} B is too big; accepted: at most {} B (2 GiB)", row.count,
               (2 * kGiB).count);
    } else if (row.count % 4 != 0) {
      complain(row_key, "a row of {} B is not a multiple of 4; accepted: {} or {} B", row.count,
               row.count / 4 * 4, row.count / 4 * 4 + 4);
    } else if (t.scales == ScaleStore::in_row && row.count <= 4ull * t.packs()) {
      complain(row_key,
               "a row of {} B has no room beside {} scale packs of 4 B; accepted: more "
               "than {} B",
               row.count, t.packs(), 4ull * t.packs());
    }
    if (listed == 0 || row.count == 0) return;
    const auto rows = t.rows_of_layers(s_.num_ranks());
    double total = 0;
    for (const auto count : rows) total += static_cast<double>(count) * double(row.count);
    if (total > 9e18) {
      complain(rows_key, "all layers together are {:.3g} B; accepted: less than 9e18 B", total);
    }
    if (t.placement != Placement::tiered && t.hot_rows > 0) {
      complain("table.hot_rows", "{} with placement \"{}\"; accepted: 0, or placement \"tiered\"",
               t.hot_rows, name_of(t.placement));
    }
  }

  void fetch() {
    auto& f = s_.fetch;
    if (f.depth && !std::has_single_bit(*f.depth)) {
      complain("fetch.depth", "{} is no power of two; accepted: {} or {}", *f.depth,
               std::bit_floor(*f.depth), std::bit_ceil(*f.depth));
    }
    if (f.depth && f.flush_depth && *f.flush_depth > *f.depth) {
      complain("fetch.flush_depth", "{} is more than fetch.depth = {}; accepted: at most {}",
               *f.flush_depth, *f.depth, *f.depth);
    }
    check_rank("fetch.hot_owner", f.hot_owner);
    for (const auto rank : f.empty_ranks) check_rank("fetch.empty_ranks", rank);
    if (f.hot_fraction + f.fraction_empty > 1) {
      complain("fetch.hot_fraction",
               "{} and fetch.fraction_empty = {} are more than all; "
               "accepted: together at most 1",
               f.hot_fraction, f.fraction_empty);
    }
    if (f.workload == WorkloadKind::ngram) {
      find_file("fetch.text", f.text, "text");
      const auto hashes = f.orders.size() * f.heads;
      if (hashes != f.entries_per_token) {
        complain("fetch.entries_per_token",
                 "{} with workload \"ngram\" of {} orders x {} heads; accepted: {}",
                 f.entries_per_token, f.orders.size(), f.heads, hashes);
      }
    } else if (f.workload == WorkloadKind::trace) {
      find_file("fetch.file", f.file, "trace");
    }
  }

  void expert_parallel() {
    auto& e = s_.expert_parallel;
    const auto gpus = s_.num_gpus();
    if (e.experts % gpus != 0) {
      complain("expert_parallel.experts",
               "{} experts do not divide over {} ranks; accepted: a "
               "multiple of {}",
               e.experts, gpus, gpus);
    }
    if (e.topk > e.experts) {
      complain("expert_parallel.topk", "{} of {} experts; accepted: at most {}", e.topk, e.experts,
               e.experts);
    }
    if (e.hidden % 8 != 0) {
      complain("expert_parallel.hidden", "{} is not a multiple of 8; accepted: {} or {}", e.hidden,
               e.hidden / 8 * 8, e.hidden / 8 * 8 + 8);
    }
    if (e.tokens.size() != 1 && e.tokens.size() != gpus) {
      complain("expert_parallel.tokens", "has {} numbers for {} ranks; accepted: 1 or {}",
               e.tokens.size(), gpus, gpus);
    }
    if (e.gate == GateKind::trace) find_file("expert_parallel.file", e.file, "trace");
    if (e.gate == GateKind::group_limited) group_limits();
  }

  void transfers() {
    const auto size = s_.pipeline.tensor_size.count;
    if (s_.run.operation == Operation::send_recv && size % 32 != 0) {
      complain("pipeline.tensor_bytes", "{} B is not a multiple of 32; accepted: {} or {} B", size,
               size / 32 * 32, size / 32 * 32 + 32);
    }
    for (std::size_t i = 0; i < s_.background.size(); ++i) {
      check_rank(fmt::format("background[{}].from", i), s_.background[i].from);
      check_rank(fmt::format("background[{}].to", i), s_.background[i].to);
      if (s_.background[i].stop && *s_.background[i].stop <= s_.background[i].start) {
        complain(fmt::format("background[{}].stop", i), "{} ns is not after start, {} ns",
                 s_.background[i].stop->count(), s_.background[i].start.count());
      }
    }
  }

  void faults() {
    for (const Fault& fault : s_.faults) {
      if (const auto target = parse_target(s_, fault); !target) {
        complain(fault.key + ".target", "{}", target.error().message);
      }
      if (takes_delay(fault.kind) && fault.delay <= Nanos{0}) {
        complain(fault.key + ".delay", "{} needs one above 0", name_of(fault.kind));
      } else if (!takes_delay(fault.kind) && fault.delay > Nanos{0}) {
        complain(fault.key + ".delay", "{} takes none", name_of(fault.kind));
      }
      if (fault.kind == FaultKind::link_up && !has_come_down(fault)) {
        complain(fault.key + ".target", "no link_down of \"{}\" at {} ns or before", fault.target,
                 fault.at.count());
      }
    }
  }

 private:
  static constexpr std::uint64_t kMostRanks = 65536;

  template <class... Args>
  void complain(const std::string& key, fmt::format_string<Args...> form, Args&&... args) {
    found_.add(s_.where(key) + ": " + fmt::format(form, std::forward<Args>(args)...));
  }

  void check_rank(const std::string& key, Rank rank) {
    if (rank.value >= s_.num_ranks()) {
      complain(key, "rank {} of {} ranks; accepted: 0 to {}", rank.value, s_.num_ranks(),
               s_.num_ranks() - 1);
    }
  }

  void group_limits() {
    const auto& e = s_.expert_parallel;
    if (e.experts % e.groups != 0) {
      complain("expert_parallel.groups", "{} experts do not divide into {} groups", e.experts,
               e.groups);
    } else if (e.top_groups > e.groups || e.top_groups * (e.experts / e.groups) < e.topk) {
      complain("expert_parallel.top_groups",
               "{} of {} groups of {} experts cannot give topk = {}; accepted: {} to {}",
               e.top_groups, e.groups, e.experts / e.groups, e.topk,
               (e.topk + e.experts / e.groups - 1) / (e.experts / e.groups), e.groups);
    }
  }

  [[nodiscard]] bool has_come_down(const Fault& up) const {
    return std::ranges::any_of(s_.faults, [&](const Fault& f) {
      return f.kind == FaultKind::link_down && f.target == up.target && f.at <= up.at;
    });
  }

  static std::vector<std::uint32_t> lanes_of(const LaneSection& lanes) {
    std::vector<std::uint32_t> result;
    for (const auto& [lane, weight] : lanes.weights) result.push_back(lane);
    return result;
  }

  void find_file(const std::string& key, std::string& name, std::string_view what) {
    namespace fs = std::filesystem;
    if (name.empty()) {
      complain(key, "is not set; accepted: the path of a {} file", what);
      return;
    }
    const fs::path given = name;
    const fs::path beside = fs::path(s_.path).parent_path() / given;
    std::error_code ignored;
    for (const auto& candidate : {given.is_absolute() ? given : beside, given}) {
      if (fs::is_regular_file(candidate, ignored)) {
        name = candidate.string();
        return;
      }
    }
    if (given.is_absolute()) {
      complain(key, "{} file \"{}\" is not there", what, name);
    } else {
      complain(key, "{} file \"{}\" is not there; looked for {} and ./{}", what, name,
               beside.string(), name);
    }
  }

  Scenario& s_;
  Diagnostics& found_;
};

bool uses_experts(Operation op) {
  return op == Operation::dispatch || op == Operation::combine || op == Operation::round_trip;
}

}  // namespace

void check_scenario(Scenario& scenario, Diagnostics& found) {
  Checker check(scenario, found);
  check.run();
  check.cluster();
  if (!found.empty()) return;  // later checks count ranks
  check.network();
  const auto op = scenario.run.operation;
  if (op == Operation::fetch || op == Operation::write) {
    check.table();
    check.fetch();
  }
  if (uses_experts(op)) check.expert_parallel();
  check.transfers();
  check.faults();
}

}  // namespace engram::tools
