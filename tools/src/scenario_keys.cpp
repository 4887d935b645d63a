#include "scenario_keys.hpp"

#include <limits>

#include "engram/model/lanes.hpp"

namespace engram::tools {
namespace {

constexpr double kInt32 = 2147483647;     // token and entry counts index with 32 bits on the GPU
constexpr double kMostRows = 1ull << 48;  // far beyond any memory; keeps products in 64 bits
constexpr double kMostRanks = 65536;
constexpr double kExactInJson = 9007199254740991;  // 2^53 - 1: other readers keep doubles

/// "an integer from 1 to 64" for limits that are integers.
std::string whole(double least, double most) {
  return fmt::format("an integer from {} to {}", static_cast<std::uint64_t>(least),
                     static_cast<std::uint64_t>(most));
}

template <class Target, class Member>
Key<Target> count(std::string path, Member member, double least, double most, std::string meaning,
                  std::string when_unset = "") {
  return key<Target>(std::move(path), member, {least, most},
                     {whole(least, most), std::move(when_unset), std::move(meaning)});
}

template <class Member>
Key<Scenario> planned(std::string path, Member member, double most, std::string meaning) {
  return key<Scenario>(std::move(path), member, {0, most, true},
                       {whole(0, most) + " (0 = planned)", "0", std::move(meaning)});
}

template <class Target, class Member>
Key<Target> toggle(std::string path, Member member, std::string meaning) {
  return key<Target>(std::move(path), member, {}, {"true | false", "", std::move(meaning)});
}

template <class Target, class Member>
Key<Target> choice(std::string path, Member member, std::string meaning,
                   std::string when_unset = "") {
  using E = std::remove_reference_t<decltype(member(std::declval<Target&>()))>;
  auto made =
      key<Target>(std::move(path), member, {}, {list_names<E>(), when_unset, std::move(meaning)});
  if (!when_unset.empty()) made.fallback = when_unset;
  return made;
}

template <class Target, class Member>
Key<Target> text(std::string path, Member member, std::string accepted, std::string when_unset,
                 std::string meaning) {
  return key<Target>(std::move(path), member, {},
                     {std::move(accepted), std::move(when_unset), std::move(meaning)});
}

template <class Target, class Member>
Key<Target> size(std::string path, Member member, Bytes most, std::string meaning,
                 std::string when_unset = "") {
  return key<Target>(
      std::move(path), member, {1, static_cast<double>(most.count)},
      {fmt::format("a size from 1 to {} bytes: 4096, \"64 KiB\", \"1 MB\"", most.count),
       std::move(when_unset), std::move(meaning)});
}

template <class Target, class Member>
Key<Target> duration(std::string path, Member member, std::string meaning,
                     std::string when_unset = "") {
  return key<Target>(std::move(path), member, {0, 9e18},
                     {"a time with its unit: \"250 ns\", \"1.5 us\", \"100 s\"",
                      std::move(when_unset), std::move(meaning)});
}

template <class Member>
Key<Scenario> share(std::string path, Member member, std::string meaning) {
  return key<Scenario>(std::move(path), member, {0, 1},
                       {"a number from 0 to 1", "", std::move(meaning)});
}

template <class Member>
Key<Scenario> counts(std::string path, Member member, double least, double most,
                     std::string when_unset, std::string meaning) {
  return key<Scenario>(
      std::move(path), member, {least, most, false, true},
      {whole(least, most) + ", or a list of them", std::move(when_unset), std::move(meaning)});
}

using S = Scenario;

void add_run(std::vector<Key<S>>& keys) {
  const auto run = [](auto member) { return at(&S::run, member); };
  keys.push_back(choice<S>("run.operation", run(&RunSection::operation),
                           "what is run; so far only fetch has a runner"));
  keys.push_back(text<S>("run.backend", run(&RunSection::backend), "sim | loopback | nccl", "",
                         "which transport carries it; --backend replaces it"));
  keys.push_back(count<S>("run.seed", run(&RunSection::seed), 0, kExactInJson,
                          "of every random choice; same seed, same bytes and same trace"));
  keys.push_back(
      count<S>("run.repeat", run(&RunSection::repeat), 1, 1e6, "how often; times are a spread"));
  keys.push_back(toggle<S>("run.check", run(&RunSection::check),
                           "compare every byte with an independent reference"));
  keys.push_back(choice<S>("run.fidelity", run(&RunSection::fidelity),
                           "what the simulator makes an event of; auto picks by size"));
  keys.push_back(toggle<S>("run.compat", run(&RunSection::compat),
                           "the reference's choices: every read through the NIC, its formulas"));
  keys.push_back(duration<S>("run.deadline", run(&RunSection::deadline),
                             "of one wait, in the backend's time"));
}

void add_cluster(std::vector<Key<S>>& keys) {
  const auto cluster = [](auto member) { return at(&S::cluster, member); };
  keys.push_back(
      count<S>("cluster.nodes", cluster(&ClusterSection::nodes), 1, kMostRanks, "nodes with GPUs"));
  keys.push_back(count<S>("cluster.gpus_per_node", cluster(&ClusterSection::gpus_per_node), 1, 1024,
                          "GPUs of a node, each with a NIC and a rank"));
  keys.push_back(count<S>(
      "cluster.gpus_per_domain", cluster(&ClusterSection::gpus_per_domain), 1, kMostRanks,
      "GPUs of an NVLink domain; divides a node or is made of whole nodes", "gpus_per_node"));
  keys.push_back(count<S>("cluster.memory_nodes", cluster(&ClusterSection::memory_nodes), 0,
                          kMostRanks, "nodes without GPUs that serve gpus_per_node segments each"));
  keys.push_back(choice<S>("cluster.mode", cluster(&ClusterSection::mode),
                           "hybrid: NVLink domains joined by rails; direct: one flat team"));
  keys.push_back(text<S>("cluster.profile", cluster(&ClusterSection::profile),
                         "the name of a profile, or a path to one", "",
                         "sourced numbers of the platform; [cluster.override] changes any"));

  const auto network = [](auto member) {
    return at(&S::cluster, &ClusterSection::network, member);
  };
  keys.push_back(choice<S>("cluster.network.topology", network(&NetworkSection::topology),
                           "how NICs are joined"));
  keys.push_back(count<S>("cluster.network.leaves", network(&NetworkSection::leaves), 1, kMostRanks,
                          "leaf switches of a plane; fat_tree only", "one for 8 nodes"));
  keys.push_back(count<S>(
      "cluster.network.nodes_per_leaf", network(&NetworkSection::nodes_per_leaf), 1, kMostRanks,
      "nodes below a leaf, or below a set of rail leaves; the last may hold fewer",
      "the most that divide nodes and fill half of 64 ports"));
  keys.push_back(count<S>(
      "cluster.network.uplinks_per_spine", network(&NetworkSection::uplinks_per_spine), 1, 4096,
      "cables from a leaf to each spine; spines x this below the leaf's own ports oversubscribes",
      "ports below a leaf / spines"));
  keys.push_back(count<S>("cluster.network.spines", network(&NetworkSection::spines), 1, 4096,
                          "spine switches of a plane"));
  keys.push_back(count<S>("cluster.network.planes", network(&NetworkSection::planes), 1, 16,
                          "separate networks that a NIC's ports reach"));
  keys.push_back(
      count<S>("cluster.network.mtu", network(&NetworkSection::mtu), 256, 16384, "packet payload"));
  keys.push_back(choice<S>(
      "cluster.network.routing", network(&NetworkSection::routing),
      "adaptive: the least queued way that no dead link ends; ecmp: by a hash of the flow"));
  keys.push_back(
      choice<S>("cluster.network.congestion_control", network(&NetworkSection::congestion_control),
                "none: credits alone; dcqcn: switches mark, senders slow (profile: congestion)"));
  keys.push_back(count<S>("cluster.network.service_level", network(&NetworkSection::service_level),
                          0, 15, "of the operation's own traffic"));
  keys.push_back(text<S>("cluster.network.file", network(&NetworkSection::file), "a path", "none",
                         "the graph, in any format of topology.md; topology = \"file\" only"));

  const auto lanes = [](auto member) {
    return at(&S::cluster, &ClusterSection::network, &NetworkSection::lanes, member);
  };
  keys.push_back(
      key<S>("cluster.network.lanes.weights", lanes(&LaneSection::weights),
             {.least = 1, .most = model::kMaxLaneWeight, .most_index = model::kMaxLanes - 1},
             {fmt::format("a table of lane (0 to {}) = weight (1 to {}): {{ 0 = 1, 1 = 3 }}",
                          model::kMaxLanes - 1, model::kMaxLaneWeight),
              "one lane", "share of a busy link that each virtual lane gets"}));
  keys.push_back(
      key<S>("cluster.network.lanes.sl_to_vl", lanes(&LaneSection::sl_to_vl),
             {.least = 0, .most = model::kMaxLanes - 1, .most_index = model::kServiceLevels - 1},
             {fmt::format("a table of service level (0 to {}) = lane (0 to {}): {{ 3 = 1 }}",
                          model::kServiceLevels - 1, model::kMaxLanes - 1),
              "all on lane 0", "which virtual lane a service level takes"}));
}

void add_table(std::vector<Key<S>>& keys) {
  const auto table = [](auto member) { return at(&S::table, member); };
  keys.push_back(counts("table.entries_per_rank", table(&TableSection::entries_per_rank), 1,
                        kMostRows, "", "rows that each rank stores; a list has a number a layer"));
  keys.push_back(counts("table.rows", table(&TableSection::rows), 1, kMostRows, "entries_per_rank",
                        "rows over all ranks, a number a layer; the last rank may hold fewer"));
  keys.push_back(count<S>("table.num_layers", table(&TableSection::num_layers), 1, 1024,
                          "tables fetched by one call", "as many as row counts"));
  keys.push_back(
      count<S>("table.hidden", table(&TableSection::hidden), 1, 1 << 30, "elements of a row"));
  keys.push_back(choice<S>("table.dtype", table(&TableSection::dtype), "of the elements"));
  keys.push_back(size<S>("table.row_bytes", table(&TableSection::row_size), 2 * kGiB,
                         "any row size, a multiple of 4, scales in the row included",
                         "hidden x element size"));
  keys.push_back(count<S>("table.scale_packs", table(&TableSection::scale_packs), 0, 65536,
                          "4-byte scale packs of a row", "fp8: one for 128 elements; bf16: none"));
  keys.push_back(choice<S>("table.scales", table(&TableSection::scales),
                           "where scales are kept: on every rank, over the domain, in the row"));
  keys.push_back(choice<S>("table.scale_layout", table(&TableSection::scale_layout),
                           "of the gathered scales; column_major is padded for the copy engine"));
  keys.push_back(choice<S>("table.placement", table(&TableSection::placement),
                           "memory that holds the rows; tiered: hot rows in GPU memory"));
  keys.push_back(count<S>("table.hot_rows", table(&TableSection::hot_rows), 0, kMostRows,
                          "rows of a rank and layer in GPU memory; placement = \"tiered\" only"));
  keys.push_back(choice<S>("table.contents", table(&TableSection::contents),
                           "stored: all rows are in memory; generated: made when they are read; "
                           "auto: generated where the job's rows pass 1 GiB"));
}

void add_fetch(std::vector<Key<S>>& keys) {
  const auto fetch = [](auto member) { return at(&S::fetch, member); };
  keys.push_back(
      count<S>("fetch.tokens", fetch(&FetchSection::tokens), 0, kInt32, "tokens of each rank"));
  keys.push_back(count<S>("fetch.entries_per_token", fetch(&FetchSection::entries_per_token), 1,
                          65536, "rows of a token in each layer"));
  keys.push_back(planned("fetch.qps", fetch(&FetchSection::qps), kMostQps,
                         "queue pairs a peer; at most as many as the GPU has SMs"));
  keys.push_back(
      key<Scenario>("fetch.depth", fetch(&FetchSection::depth), {0, kMostDepth, true},
                    {fmt::format("a power of two up to {:.0f} (0 = planned)", kMostDepth), "0",
                     "requests a QP holds"}));
  keys.push_back(planned("fetch.flush_depth", fetch(&FetchSection::flush_depth), kMostDepth,
                         "requests to a peer on a QP between two doorbells; at most depth"));
  keys.push_back(planned("fetch.sms", fetch(&FetchSection::sms), 1024,
                         "SMs that load rows; at most those of the GPU"));
  keys.push_back(toggle<S>("fetch.dedup", fetch(&FetchSection::dedup),
                           "read a row that a layer's fetch names again only once; copying it to "
                           "its other places is not timed; sim and loopback"));
  keys.push_back(count<S>("fetch.assist_threads", fetch(&FetchSection::assist_threads), 0, 1024,
                          "host threads that gather host rows where the planner finds that they "
                          "pay; nccl alone"));
  keys.push_back(choice<S>("fetch.wait_order", fetch(&FetchSection::wait_order),
                           "in which order layers are waited for"));
  keys.push_back(choice<S>("fetch.workload", fetch(&FetchSection::workload),
                           "which rows: any alike, few often, hashes of a text, a record"));
  keys.push_back(key<S>("fetch.exponent", fetch(&FetchSection::exponent), {0, 10},
                        {"a number from 0 to 10", "",
                         "zipf: the k-th most wanted row is asked for as k to the power of minus "
                         "this"}));
  keys.push_back(text<S>("fetch.text", fetch(&FetchSection::text), "a path to a text file", "none",
                         "ngram: the tokens; beside the scenario, else in the working folder"));
  keys.push_back(counts("fetch.orders", fetch(&FetchSection::orders), 1, 16, "",
                        "ngram: words hashed together"));
  keys.push_back(count<S>("fetch.heads", fetch(&FetchSection::heads), 1, 4096,
                          "ngram: hashes an order; orders x heads = entries_per_token"));
  keys.push_back(text<S>("fetch.file", fetch(&FetchSection::file), "a path to a trace", "none",
                         "trace: a token a line, its rows as integers, -1 = none; "
                         "entries_per_token of them for every layer alike, or that many a layer"));
  keys.push_back(share("fetch.fraction_empty", fetch(&FetchSection::fraction_empty),
                       "share of the indices that is -1, \"no row\""));
  keys.push_back(share("fetch.hot_fraction", fetch(&FetchSection::hot_fraction),
                       "share of the indices that is moved to rows of hot_owner"));
  keys.push_back(count<S>("fetch.hot_owner", fetch(&FetchSection::hot_owner), 0, kMostRanks,
                          "the rank that hot_fraction loads"));
  keys.push_back(counts("fetch.empty_ranks", fetch(&FetchSection::empty_ranks), 0, kMostRanks,
                        "none", "ranks that take part with no token"));
}

void add_expert_parallel(std::vector<Key<S>>& keys) {
  const auto ep = [](auto member) { return at(&S::expert_parallel, member); };
  keys.push_back(counts("expert_parallel.tokens", ep(&ExpertSection::tokens), 0, kInt32, "",
                        "tokens of each rank, or a list with a number a rank"));
  keys.push_back(count<S>("expert_parallel.hidden", ep(&ExpertSection::hidden), 8, 1 << 20,
                          "elements of a token, a multiple of 8"));
  keys.push_back(count<S>("expert_parallel.experts", ep(&ExpertSection::experts), 1, kMostRanks,
                          "over all ranks; the ranks divide them"));
  keys.push_back(count<S>("expert_parallel.topk", ep(&ExpertSection::topk), 1, 1024,
                          "experts that a token chooses"));
  keys.push_back(choice<S>("expert_parallel.dispatch_dtype", ep(&ExpertSection::dispatch_dtype),
                           "of dispatched tokens; combine is bf16"));
  keys.push_back(
      choice<S>("expert_parallel.gate", ep(&ExpertSection::gate), "how tokens choose experts"));
  keys.push_back(key<S>("expert_parallel.exponent", ep(&ExpertSection::exponent), {0, 10},
                        {"a number from 0 to 10", "", "gate = \"zipf\": skew of the experts"}));
  keys.push_back(count<S>("expert_parallel.groups", ep(&ExpertSection::groups), 1, kMostRanks,
                          "gate = \"group_limited\": groups of experts"));
  keys.push_back(count<S>("expert_parallel.top_groups", ep(&ExpertSection::top_groups), 1,
                          kMostRanks, "gate = \"group_limited\": groups that a token uses"));
  keys.push_back(text<S>("expert_parallel.file", ep(&ExpertSection::file), "a path to a trace",
                         "none", "gate = \"trace\": a token a line, its experts, -1 = none"));
  keys.push_back(choice<S>("expert_parallel.layout", ep(&ExpertSection::layout),
                           "of received tokens: a row a token, or a row a (token, expert)"));
  keys.push_back(count<S>("expert_parallel.alignment", ep(&ExpertSection::alignment), 1, 65536,
                          "layout = \"expanded\": rows that an expert's start is aligned to"));
  keys.push_back(planned("expert_parallel.sms", ep(&ExpertSection::sms), 1024, "SMs that send"));
  keys.push_back(
      planned("expert_parallel.qps", ep(&ExpertSection::qps), kMostQps, "queue pairs a peer"));
  keys.push_back(choice<S>("expert_parallel.reduction", ep(&ExpertSection::reduction),
                           "multiple: rows are added before they cross; single: at the end"));
  keys.push_back(toggle<S>("expert_parallel.cached", ep(&ExpertSection::cached),
                           "repeats reuse the first dispatch's handle"));
  keys.push_back(
      count<S>("expert_parallel.biases", ep(&ExpertSection::biases), 0, 2, "bias rows of combine"));
}

void add_transfers(std::vector<Key<S>>& keys) {
  const auto pipeline = [](auto member) { return at(&S::pipeline, member); };
  keys.push_back(size<S>("pipeline.tensor_bytes", pipeline(&PipelineSection::tensor_size),
                         Bytes{1ull << 40}, "of a tensor sent on, a multiple of 32"));
  keys.push_back(count<S>("pipeline.in_flight", pipeline(&PipelineSection::in_flight), 1, 1024,
                          "slots of each direction"));
  keys.push_back(
      count<S>("pipeline.sends", pipeline(&PipelineSection::sends), 1, kInt32, "tensors a rank"));
  const auto gather = [](auto member) { return at(&S::all_gather, member); };
  keys.push_back(size<S>("all_gather.tensor_bytes", gather(&AllGatherSection::tensor_size),
                         Bytes{1ull << 40}, "of a rank's shard"));
  keys.push_back(
      count<S>("all_gather.tensors", gather(&AllGatherSection::tensors), 1, 65536, "in one call"));
  keys.push_back(count<S>("all_gather.in_flight", gather(&AllGatherSection::in_flight), 1, 32,
                          "calls of a session"));
}

}  // namespace

const std::vector<Key<Scenario>>& scenario_keys() {
  static const auto keys = [] {
    std::vector<Key<Scenario>> made;
    add_run(made);
    add_cluster(made);
    add_table(made);
    add_fetch(made);
    add_expert_parallel(made);
    add_transfers(made);
    return made;
  }();
  return keys;
}

const std::vector<Key<BackgroundTraffic>>& background_keys() {
  using B = BackgroundTraffic;
  static const std::vector<Key<B>> keys{
      choice<B>("kind", at(&B::kind),
                "reads (by `to`) and writes (by `from`) load NICs and links, flow links of plane 0 "
                "alone"),
      count<B>("from", at(&B::from), 0, kMostRanks, "rank whose bytes flow"),
      count<B>("to", at(&B::to), 0, kMostRanks, "rank that receives them"),
      key<B>("rate", at(&B::rate), {1, 1e15},
             {"a rate with its unit: \"10 GB/s\", \"100 Gb/s\"", "required", "offered load"}),
      size<B>("message_bytes", at(&B::message_size), kGiB, "of one message"),
      count<B>("service_level", at(&B::service_level), 0, 15, "its lane follows from sl_to_vl"),
      duration<B>("start", at(&B::start), "when it begins"),
      duration<B>("stop", at(&B::stop), "when it ends", "the end of the run"),
  };
  return keys;
}

const std::vector<Key<Fault>>& fault_keys() {
  static const std::vector<Key<Fault>> keys{
      choice<Fault>("kind", at(&Fault::kind), "what goes wrong", "required"),
      duration<Fault>("at", at(&Fault::at), "when, from the simulation's start, set-up included"),
      text<Fault>("target", at(&Fault::target),
                  "\"link NAME\" or \"switch NAME\", all its links (link_down, link_up); \"layer 0 "
                  "row 17\" (corrupted_row); \"rank 3 qp 5\" "
                  "(nic_error); \"rank 3\" (all but links)",
                  "required", "what it hits; memory_node_gone takes every rank of the memory node"),
      duration<Fault>(
          "delay", at(&Fault::delay),
          "how late; delayed_doorbell, reordered_completions (up to it), "
          "late_visibility (of stores and barriers, not of rows that are there) and rank_slow "
          "(a request) need it"),
  };
  return keys;
}

const std::vector<SectionNote>& scenario_sections() {
  static const std::vector<SectionNote> sections{
      {"run", "What is run, on what, how often."},
      {"cluster", "The machine: nodes, GPUs, how they are joined."},
      {"cluster.network", "The network between nodes."},
      {"cluster.network.lanes", "Virtual lanes of every link."},
      {"table", "The table that a fetch reads."},
      {"fetch", "Operations fetch and write."},
      {"expert_parallel", "Operations dispatch, combine and round_trip."},
      {"pipeline", "Operation send_recv."},
      {"all_gather", "Operations all_gather, reduce_scatter and all_reduce."},
  };
  return sections;
}

}  // namespace engram::tools
