// The fidelities agree in total time, and the same seed gives the same trace.
#include <algorithm>

#include "program.hpp"

namespace engram::scenarios {
namespace {

struct Case {
  const char* label;
  const char* scenario;
  const char* sets;
};

// Traffic of others leaves the owner's port on the lane of its answers.
constexpr const char* kBesideOwner =
    "--set cluster.nodes=3 --set 'fetch.empty_ranks=[0,2]' "
    "--set 'cluster.network.lanes.sl_to_vl={0=0,3=0}' "
    "--set 'background=[{from=0,to=2,rate=\"50 GB/s\"}]'";
constexpr const char* kLargeBesideRows =
    "--set cluster.network.spines=2 --set cluster.network.routing=adaptive "
    "--set table.row_bytes=8192 --set fetch.qps=4 --set fetch.entries_per_token=4 "
    "--set 'background=[{from=2,to=1,rate=\"40 GB/s\",message_bytes=65536}]'";

// Others' reads and writes meet the answers at the owner's NIC.
constexpr const char* kOthersRead =
    "--set cluster.nodes=3 --set 'fetch.empty_ranks=[0,2]' "
    "--set 'background=[{from=0,to=2,rate=\"50 GB/s\",message_bytes=65536,kind=\"reads\"}]'";
constexpr const char* kOthersWrite =
    "--set cluster.nodes=3 --set 'fetch.empty_ranks=[0,2]' "
    "--set 'cluster.network.lanes.sl_to_vl={0=0,3=0}' "
    "--set 'background=[{from=0,to=2,rate=\"50 GB/s\",message_bytes=65536,kind=\"writes\"}]'";
constexpr const char* kSmallBuffers =
    "--set cluster.network.spines=2 --set cluster.network.routing=adaptive "
    "--set table.row_bytes=16384 --set fetch.tokens=32 --set fetch.entries_per_token=8 "
    "--set fetch.qps=4 --set 'cluster.override.network.buffer_per_lane=\"8 KiB\"'";
constexpr const char* kVictimOfSmallRows =
    "--set cluster.network.congestion_control=none --set table.row_bytes=512";

constexpr const char* kLateCompletions =
    "--set cluster.network.spines=2 --set cluster.network.routing=adaptive "
    "--set table.row_bytes=512 --set fetch.tokens=128 --set fetch.entries_per_token=8 "
    "--set fetch.qps=4 --set table.placement=host --set table.entries_per_rank=4096 "
    "--set 'fault=[{kind=\"reordered_completions\",target=\"rank 0\",delay=\"20 us\"}]'";

class Fidelities : public testing::TestWithParam<Case> {};

TEST_P(Fidelities, AgreeInPairsWithinTenPerCent) {
  const Case& c = GetParam();
  double shortest = 0, longest = 0;
  std::string times;
  for (const char* fidelity : {"message", "batch", "flow"}) {
    const std::string sets =
        std::string(c.sets) + " --set run.repeat=1 --set run.fidelity=" + fidelity;
    const Json result = run(c.scenario, sets);
    const double time = time_us(result);
    EXPECT_EQ(result.value("fidelity", ""), fidelity);
    shortest = shortest == 0 ? time : std::min(shortest, time);
    longest = std::max(longest, time);
    times += std::string(fidelity) + ' ' + std::to_string(time) + " us; ";
  }
  EXPECT_GT(shortest, 0);
  EXPECT_LE(longest, 1.10 * shortest) << times;
}

// What bounds: owners, readers, their windows, doorbells, lines, paths of a network, lanes.
INSTANTIATE_TEST_SUITE_P(
    Scenarios, Fidelities,
    testing::Values(
        Case{"Incast", "incast", ""}, Case{"HotOwner", "hot_owner", ""},
        Case{"MemoryNode", "memory_node", ""}, Case{"EmptyRanks", "empty_ranks", ""},
        Case{"MinusOne", "minus_one", ""}, Case{"Quickstart", "quickstart", ""},
        Case{"GpuStorage", "storage", "--set table.placement=gpu"},
        Case{"HostStorage", "storage", "--set table.placement=host"},
        Case{"Nodes2", "sweep_nodes", "--set cluster.nodes=2"},
        Case{"Nodes4", "sweep_nodes", "--set cluster.nodes=4"},
        Case{"Nodes8", "sweep_nodes", "--set cluster.nodes=8"},
        Case{"FastReaders", "sweep_nodes",
             "--set cluster.nodes=4 --set cluster.override.nic.read_rate='90 M/s'"},
        Case{"NewerDefault2", "default_v25", "--set cluster.nodes=2"},
        Case{"NewerDefault4", "default_v25", ""}, Case{"OlderDefault", "default_v2", ""},
        Case{"OlderCompat", "default_v2_compat", ""},
        Case{"Qps1", "qps_sweep", "--set fetch.qps=1 --set fetch.tokens=128"},
        Case{"Qps4", "qps_sweep", "--set fetch.qps=4"},
        Case{"Qps16", "qps_sweep", "--set fetch.qps=16"},
        Case{"Qps32", "qps_sweep", "--set fetch.qps=32"},
        Case{"Qps132", "qps_sweep", "--set fetch.qps=132"},
        Case{"Qps1Depth2", "qps_sweep",
             "--set fetch.qps=1 --set fetch.depth=2 --set fetch.tokens=64"},
        Case{"Qps4Depth8", "qps_sweep",
             "--set fetch.qps=4 --set fetch.depth=8 --set fetch.tokens=128"},
        Case{"Depth2OnFatTree", "ecmp",
             "--set fetch.depth=2 --set fetch.qps=4 --set table.row_bytes=512"},
        Case{"QpsOn2Planes", "qps_sweep", "--set fetch.qps=32 --set cluster.network.planes=2"},
        Case{"QpsOn4Planes", "qps_sweep", "--set fetch.qps=64 --set cluster.network.planes=4"},
        Case{"Plane", "planes", "--set cluster.network.planes=1"},
        Case{"Planes2", "planes", "--set cluster.network.planes=2"},
        Case{"Planes4", "planes", "--set cluster.network.planes=4"},
        Case{"Ranks16", "scale/message_64", "--set cluster.nodes=2"},
        Case{"Ranks32", "scale/message_64", "--set cluster.nodes=4 --set fetch.tokens=128"},
        Case{"DoorbellEach", "doorbells", "--set fetch.flush_depth=1"},
        Case{"Doorbell768", "doorbells", "--set fetch.flush_depth=768"},
        Case{"Ecmp", "ecmp", "--set cluster.network.routing=ecmp"},
        Case{"Adaptive", "ecmp", "--set cluster.network.routing=adaptive"},
        Case{"RailHybrid", "rail_fat_tree",
             "--set cluster.network.topology=rail --set cluster.mode=hybrid"},
        Case{"RailDirect", "rail_fat_tree",
             "--set cluster.network.topology=rail --set cluster.mode=direct"},
        Case{"FatTreeHybrid", "rail_fat_tree",
             "--set cluster.network.topology=fat_tree --set cluster.mode=hybrid"},
        Case{"FatTreeDirect", "rail_fat_tree",
             "--set cluster.network.topology=fat_tree --set cluster.mode=direct"},
        Case{"LanesWeighted", "lanes_weighted", ""}, Case{"VictimOnOwnLane", "victim_lanes", ""},
        Case{"VictimOnSameLane", "victim_lanes", "--set cluster.network.service_level=0"},
        Case{"OwnersPortOnSameLane", "lanes_weighted", kBesideOwner},
        Case{"LargeMessagesBesideRows", "ecmp", kLargeBesideRows},
        Case{"OthersReadBesideRows", "lanes_weighted", kOthersRead},
        Case{"OthersWriteOnSameLane", "lanes_weighted", kOthersWrite},
        Case{"SmallBuffers", "ecmp", kSmallBuffers},
        Case{"VictimOfSmallRows", "congestion_control", kVictimOfSmallRows},
        Case{"LateCompletions", "ecmp", kLateCompletions},
        Case{"Serving", "disaggregated_serving", ""}),
    [](const auto& param) { return std::string(param.param.label); });

TEST(Fidelity, SaysThatItModelsCongestionControlRoughly) {
  const std::string text = "does not model how cluster.network.congestion_control = dcqcn";
  const auto found = [&](const std::string& sets) {
    return warnings(run("congestion_control", "--set fetch.tokens=256 " + sets), text);
  };
  EXPECT_EQ(found("--set run.fidelity=message"), 0u);
  EXPECT_EQ(found("--set run.fidelity=batch"), 1u);
  EXPECT_EQ(found("--set run.fidelity=flow"), 1u);
  EXPECT_EQ(found("--set run.fidelity=flow --set 'background=[]'"), 0u);
  EXPECT_EQ(found("--set run.fidelity=flow --set cluster.network.congestion_control=none"), 0u);
}

TEST(Determinism, TheSameSeedGivesTheSameTrace) {
  const auto trace = [](const std::string& seed, const std::string& file) {
    const std::string path = scratch(file);
    const Ended ended =
        engram("run " + scenario("quickstart") +
               " --set fetch.tokens=32 --set run.repeat=1 --seed " + seed + " --trace " + path);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return read_file(path);
  };
  const std::string first = trace("7", "a.json");
  EXPECT_GT(first.size(), 100'000u);
  EXPECT_TRUE(first == trace("7", "b.json"));
  EXPECT_FALSE(first == trace("8", "c.json"));
}

}  // namespace
}  // namespace engram::scenarios
