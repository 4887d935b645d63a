// A scenario: everything a run depends on, as values. The defaults stand here and nowhere else;
// what each key means, accepts and defaults to is printed by `engram scenario --keys`
// (docs/scenario.md). "Planned" means that the planner chooses when nothing is set.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::tools {

enum class Operation {
  fetch,
  write,
  dispatch,
  combine,
  round_trip,
  send_recv,
  all_gather,
  reduce_scatter,
  all_reduce,
  barrier
};
enum class Fidelity { automatic, message, batch, flow };
enum class ClusterMode { hybrid, direct };
enum class NetworkKind { rail, fat_tree, single_switch, file };
enum class RoutingKind { adaptive, ecmp };
enum class CongestionKind { none, dcqcn };
enum class DataType { bf16, fp8 };
enum class Placement { host, gpu, tiered };
enum class ScaleStore { replicated, sharded, in_row };
enum class ScaleLayout { row_major, column_major };
enum class RowContents { automatic, stored, generated };
enum class WorkloadKind { uniform, zipf, ngram, trace };
enum class WaitOrder { forward, reverse, shuffled };
enum class GateKind { balanced, zipf, group_limited, trace };
enum class ExpertLayout { plain, expanded };
enum class Reduction { multiple, single };
enum class TrafficKind { reads, writes, flow };
enum class FaultKind {
  link_down,
  link_up,
  rank_dead,
  rank_slow,
  nic_error,
  delayed_doorbell,
  reordered_completions,
  late_visibility,
  corrupted_row,
  memory_node_gone
};

/// As written in a scenario file: "round_trip", "fat_tree", "auto".
[[nodiscard]] std::string_view name_of(Operation);
[[nodiscard]] std::string_view name_of(Fidelity);
[[nodiscard]] std::string_view name_of(ClusterMode);
[[nodiscard]] std::string_view name_of(NetworkKind);
[[nodiscard]] std::string_view name_of(RoutingKind);
[[nodiscard]] std::string_view name_of(CongestionKind);
[[nodiscard]] std::string_view name_of(DataType);
[[nodiscard]] std::string_view name_of(Placement);
[[nodiscard]] std::string_view name_of(ScaleStore);
[[nodiscard]] std::string_view name_of(ScaleLayout);
[[nodiscard]] std::string_view name_of(RowContents);
[[nodiscard]] std::string_view name_of(WorkloadKind);
[[nodiscard]] std::string_view name_of(WaitOrder);
[[nodiscard]] std::string_view name_of(GateKind);
[[nodiscard]] std::string_view name_of(ExpertLayout);
[[nodiscard]] std::string_view name_of(Reduction);
[[nodiscard]] std::string_view name_of(TrafficKind);
[[nodiscard]] std::string_view name_of(FaultKind);

struct RunSection {
  Operation operation = Operation::fetch;
  std::string backend = "sim";
  std::uint64_t seed = 1;
  std::uint32_t repeat = 5;
  bool check = true;
  Fidelity fidelity = Fidelity::automatic;
  bool compat = false;
  /// Of one wait, in the backend's time. Default: the reference's deadline on the GPU, 100 s.
  Nanos deadline = std::chrono::seconds{100};
};

struct LaneSection {
  std::map<std::uint32_t, std::uint32_t> weights;   ///< virtual lane -> share; empty = one lane
  std::map<std::uint32_t, std::uint32_t> sl_to_vl;  ///< service level -> virtual lane
};

struct NetworkSection {
  NetworkKind topology = NetworkKind::rail;
  std::optional<std::uint32_t> leaves;             ///< fat_tree only; unset: nodes of 8 a leaf
  std::optional<std::uint32_t> nodes_per_leaf;     ///< fat_tree and rail; excludes leaves
  std::optional<std::uint32_t> uplinks_per_spine;  ///< unset: as many as ports below a leaf
  std::uint32_t spines = 4;
  std::uint32_t planes = 1;
  std::uint32_t mtu = 4096;
  RoutingKind routing = RoutingKind::adaptive;
  CongestionKind congestion_control = CongestionKind::none;  ///< as the reference recommends
  std::uint32_t service_level = 3;                           ///< the reference's traffic class
  std::string file;  ///< absolute or relative to the working folder; topology = file
  LaneSection lanes;
};

struct ClusterSection {
  std::uint32_t nodes = 2;
  std::uint32_t gpus_per_node = 8;
  std::optional<std::uint32_t> gpus_per_domain;  ///< NVLink domain; unset: gpus_per_node
  std::uint32_t memory_nodes = 0;  ///< nodes without GPUs, gpus_per_node segments each, last ranks
  ClusterMode mode = ClusterMode::hybrid;
  std::string profile = "h100-cx7-400";
  /// [cluster.override], keys as in a profile file; never null. Shared, because a copied
  /// toml::table forgets the lines that its errors name.
  std::shared_ptr<const toml::table> overrides = std::make_shared<const toml::table>();
  NetworkSection network;
};

struct TableSection {
  std::vector<std::uint64_t> entries_per_rank{524288};  ///< [layers] or one number for every layer
  std::vector<std::uint64_t> rows;          ///< [layers], over all ranks; replaces entries_per_rank
  std::optional<std::uint32_t> num_layers;  ///< unset: as many as numbers above
  std::uint32_t hidden = 128;
  DataType dtype = DataType::bf16;
  std::optional<Bytes> row_size;  ///< replaces hidden * element size; scales in the row included
  std::optional<std::uint32_t> scale_packs;  ///< unset: fp8 one a 128 elements, bf16 none
  ScaleStore scales = ScaleStore::replicated;
  ScaleLayout scale_layout = ScaleLayout::row_major;
  Placement placement = Placement::host;
  std::uint64_t hot_rows = 0;  ///< rows a rank keeps in GPU memory; placement = tiered
  RowContents contents = RowContents::automatic;

  [[nodiscard]] std::uint32_t layers() const;
  /// Rows of each layer over `ranks` ranks, [layers].
  [[nodiscard]] std::vector<std::uint64_t> rows_of_layers(std::uint32_t ranks) const;
  /// What one read moves: the row, and its scales when they are in it.
  [[nodiscard]] Bytes row_bytes() const;
  [[nodiscard]] std::uint32_t packs() const;  ///< scale packs of 4 bytes a row
};

struct FetchSection {
  std::uint32_t tokens = 512;  ///< a rank
  std::uint32_t entries_per_token = 24;
  std::optional<std::uint32_t> qps, depth, flush_depth, sms;  ///< unset: planned
  bool dedup = false;
  std::uint32_t assist_threads = 0;  ///< host threads that gather host rows; nccl alone
  WaitOrder wait_order = WaitOrder::forward;
  WorkloadKind workload = WorkloadKind::uniform;
  double exponent = 1.0;  ///< zipf
  std::string text;       ///< ngram; resolved: beside the scenario file, else the working folder
  std::vector<std::uint32_t> orders{2, 3};
  std::uint32_t heads = 8;
  std::string file;           ///< trace; resolved like text
  double fraction_empty = 0;  ///< of the indices, set to -1
  double hot_fraction = 0;    ///< of the indices, moved to a row of hot_owner
  Rank hot_owner{0};
  std::vector<Rank> empty_ranks;  ///< these join with 0 tokens
};

struct ExpertSection {
  std::vector<std::uint32_t> tokens{4096};  ///< one number, or [ranks]
  std::uint32_t hidden = 7168;
  std::uint32_t experts = 256;
  std::uint32_t topk = 8;
  DataType dispatch_dtype = DataType::fp8;
  GateKind gate = GateKind::balanced;
  double exponent = 1.0;     ///< gate = zipf
  std::uint32_t groups = 8;  ///< gate = group_limited
  std::uint32_t top_groups = 4;
  std::string file;  ///< gate = trace
  ExpertLayout layout = ExpertLayout::plain;
  std::uint32_t alignment = 128;
  std::optional<std::uint32_t> sms, qps;
  Reduction reduction = Reduction::multiple;
  bool cached = false;  ///< repeat with the first dispatch's handle
  std::uint32_t biases = 0;
};

struct PipelineSection {
  Bytes tensor_size = kMiB;
  std::uint32_t in_flight = 2;
  std::uint32_t sends = 8;
};

struct AllGatherSection {
  Bytes tensor_size = kMiB;
  std::uint32_t tensors = 1;
  std::uint32_t in_flight = 2;
};

struct BackgroundTraffic {
  TrafficKind kind = TrafficKind::flow;
  Rank from{}, to{};
  BytesPerSecond rate{};
  Bytes message_size{4096};
  std::uint32_t service_level = 0;
  Nanos start{};
  std::optional<Nanos> stop;       ///< unset: to the end
  std::string key = "background";  ///< "background[1]", for errors
};

struct Fault {
  FaultKind kind{};
  Nanos at{};
  std::string target;         ///< "rank 3", "link NAME", "rank 3 qp 5", "layer 0 row 17"
  Nanos delay{};              ///< of the kinds for which takes_delay() holds
  std::string key = "fault";  ///< "fault[1]", for errors
};

[[nodiscard]] constexpr bool takes_delay(FaultKind kind) {
  return kind == FaultKind::rank_slow || kind == FaultKind::delayed_doorbell ||
         kind == FaultKind::reordered_completions || kind == FaultKind::late_visibility;
}

/// What the machine's environment chose (docs/environment.md); no scenario file sets it.
struct HostOptions {
  bool gin = true;           ///< false: as if this machine had no GPU-initiated network
  std::string nic;           ///< the one NIC to use; empty: the nearest to each GPU
  std::string nccl_library;  ///< path of libnccl; empty: where the loader finds it
  bool nccl_newer = false;   ///< also one newer than the headers of the build
  std::string kernel_cache;  ///< folder of compiled kernels; empty: none
  std::map<std::string, std::string> variables;  ///< all of the environment, as main found it
};

struct SweepAxis {
  std::string key;                  ///< dotted
  std::vector<std::string> values;  ///< TOML, as --set takes them
};

struct Scenario {
  RunSection run;
  ClusterSection cluster;
  TableSection table;
  FetchSection fetch;
  ExpertSection expert_parallel;
  PipelineSection pipeline;
  AllGatherSection all_gather;
  std::vector<BackgroundTraffic> background;
  std::vector<Fault> faults;
  std::vector<SweepAxis> sweep;
  HostOptions host;

  std::string path;  ///< as given; "" when made in code
  std::string text;  ///< the file, for reports
  std::vector<std::string> set_overrides;
  std::map<std::string, std::string> places;  ///< key -> "file:line:column" or "--set key=value"

  [[nodiscard]] std::uint32_t num_gpus() const { return cluster.nodes * cluster.gpus_per_node; }
  [[nodiscard]] std::uint32_t num_ranks() const {
    return (cluster.nodes + cluster.memory_nodes) * cluster.gpus_per_node;
  }
  [[nodiscard]] std::uint32_t gpus_per_domain() const {
    return cluster.gpus_per_domain.value_or(cluster.gpus_per_node);
  }
  /// True for a rank of a memory node: it serves its segment and starts nothing.
  [[nodiscard]] bool is_memory_rank(Rank rank) const { return rank.value >= num_gpus(); }
  /// "scenario.toml:7:3: key 'fetch.qps'"; of what nobody set, the place of the entry that it
  /// belongs to ("fault[0].delay" of "fault[0]"), or the key alone. For errors that only a later
  /// step can see, such as more QPs than the profile's NIC has.
  [[nodiscard]] std::string where(std::string_view key) const;
};

/// Reads `path` and applies each `key=value` of `set_overrides` over it, last wins. Relative
/// files named in it are found beside `path`, then in the working folder.
/// Errors: invalid_argument or not_found, up to five lines "file:line:column: key 'x': ...", each
/// saying what is accepted.
[[nodiscard]] Result<Scenario> load_scenario(const std::string& path,
                                             const std::vector<std::string>& set_overrides = {});

/// The same for text that is in memory; `path` only names it in errors and finds its files.
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, const std::string& path,
                                              const std::vector<std::string>& set_overrides = {});

/// Every key with type, accepted values, default and meaning, as Markdown (docs/scenario.md).
[[nodiscard]] std::string scenario_reference();

}  // namespace engram::tools
