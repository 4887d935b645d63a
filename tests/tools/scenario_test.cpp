// Scenario files: every key of the interface is taken, every mistake is named.
#include "engram/tools/scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace engram::tools {
namespace {

std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto scenario = parse_scenario(text, "s.toml", sets);
  return scenario ? "no error" : scenario.error().message;
}

TEST(Scenario, DefaultsAreOnesOfTheStructs) {
  const auto parsed = parse_scenario("", "s.toml");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Scenario defaults;
  EXPECT_EQ(parsed->fetch.tokens, defaults.fetch.tokens);
  EXPECT_EQ(parsed->table.rows_of_layers(16), (std::vector<std::uint64_t>{524288 * 16}));
  EXPECT_EQ(parsed->table.row_bytes(), Bytes{256});
  EXPECT_EQ(parsed->num_ranks(), 16u);
  EXPECT_FALSE(parsed->fetch.qps);
}

// The example of the interface document, with its optional keys.
TEST(Scenario, TakesEveryKey) {
  const auto s = parse_scenario(R"(
[run]
operation = "round_trip"
backend = "sim"
seed = 7
repeat = 5
check = true
fidelity = "batch"
compat = true
deadline = "1.5 ms"
[cluster]
nodes = 2
gpus_per_node = 8
gpus_per_domain = 4
memory_nodes = 1
mode = "direct"
profile = "h100-cx7-400"
[cluster.override.nic]
port = "25 GB/s"
[cluster.network]
topology = "fat_tree"
leaves = 2
spines = 4
planes = 2
mtu = 4096
routing = "ecmp"
service_level = 3
[cluster.network.lanes]
weights = { 0 = 1, 1 = 3 }
sl_to_vl = { 0 = 0, 3 = 1 }
[table]
rows = [384006168, 384016682]
row_bytes = 264
num_layers = 2
hidden = 256
dtype = "fp8"
scale_packs = 2
scales = "in_row"
scale_layout = "column_major"
placement = "host"
hot_rows = 0
contents = "generated"
[fetch]
tokens = 0
entries_per_token = 24
qps = 0
depth = 1024
flush_depth = 768
sms = 4
dedup = true
wait_order = "shuffled"
workload = "zipf"
exponent = 1.1
orders = [2, 3]
heads = 8
fraction_empty = 0.25
hot_fraction = 0.5
hot_owner = 3
empty_ranks = [1, 2]
[expert_parallel]
tokens = 4096
hidden = 7168
experts = 256
topk = 8
dispatch_dtype = "fp8"
gate = "group_limited"
groups = 8
top_groups = 4
exponent = 1
layout = "expanded"
alignment = 128
sms = 0
qps = 17
reduction = "single"
cached = true
biases = 2
[pipeline]
tensor_bytes = "2 MiB"
in_flight = 4
sends = 10
[all_gather]
tensor_bytes = 65536
tensors = 3
in_flight = 32
[[background]]
kind = "reads"
from = 0
to = 5
rate = "10 GB/s"
message_bytes = "4 KiB"
service_level = 1
start = "10 us"
stop = "20 us"
[[fault]]
kind = "delayed_doorbell"
at = "5 us"
target = "rank 3"
delay = "100 ns"
[sweep]
"cluster.nodes" = [2, 4, 8]
"cluster.override.nic.read_rate" = ["45 M/s", "90 M/s"]
)",
                                "s.toml");
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->run.operation, Operation::round_trip);
  EXPECT_EQ(s->run.deadline, Nanos{1'500'000});
  EXPECT_EQ(s->num_ranks(), 24u);
  EXPECT_TRUE(s->is_memory_rank(Rank{16}));
  EXPECT_FALSE(s->is_memory_rank(Rank{15}));
  EXPECT_EQ(s->cluster.overrides->at_path("nic.port").value<std::string>(), "25 GB/s");
  EXPECT_EQ(s->cluster.overrides->at_path("nic.port").node()->source().begin.line, 19u);
  EXPECT_EQ(s->cluster.network.lanes.weights.at(1), 3u);
  EXPECT_EQ(s->table.row_bytes(), Bytes{264});
  EXPECT_EQ(s->table.rows_of_layers(24), (std::vector<std::uint64_t>{384006168, 384016682}));
  EXPECT_EQ(s->fetch.tokens, 0u);
  EXPECT_FALSE(s->fetch.qps);
  EXPECT_EQ(s->fetch.depth, 1024u);
  EXPECT_EQ(s->fetch.empty_ranks, (std::vector<Rank>{Rank{1}, Rank{2}}));
  EXPECT_EQ(s->pipeline.tensor_size, 2 * kMiB);
  ASSERT_EQ(s->background.size(), 1u);
  EXPECT_EQ(s->background[0].rate, gigabytes_per_second(10));
  ASSERT_EQ(s->faults.size(), 1u);
  EXPECT_EQ(s->faults[0].at, Nanos{5000});
  ASSERT_EQ(s->sweep.size(), 2u);
  EXPECT_EQ(s->sweep[0].values, (std::vector<std::string>{"2", "4", "8"}));
  EXPECT_EQ(s->sweep[1].values[0], "\"45 M/s\"");
  EXPECT_EQ(s->where("fetch.depth"), "s.toml:47:9: key 'fetch.depth'");
}

TEST(Scenario, SetPutsValuesOver) {
  const auto s = parse_scenario(
      "[fetch]\ntokens = 5\n[cluster.network.lanes]\nweights = { 0 = 1, 1 = 2 }\n"
      "sl_to_vl = { 3 = 2 }\n",
      "s.toml",
      {"fetch.tokens=6", "run.backend=loopback", "run.operation=\"barrier\"",
       "table.entries_per_rank=[10, 11]", "cluster.override.nic.port=25 GB/s",
       "cluster.network.lanes.weights={2=9}", "fetch.tokens=7"});
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->fetch.tokens, 7u);
  EXPECT_EQ(s->run.backend, "loopback");
  EXPECT_EQ(s->run.operation, Operation::barrier);
  EXPECT_EQ(s->table.layers(), 2u);
  EXPECT_EQ(s->cluster.overrides->at_path("nic.port").value<std::string>(), "25 GB/s");
  EXPECT_EQ(s->cluster.network.lanes.weights, (std::map<std::uint32_t, std::uint32_t>{{2, 9}}));
  EXPECT_EQ(s->where("fetch.tokens"), "--set fetch.tokens=7: key 'fetch.tokens'");
}

struct BadCase {
  const char* name;
  const char* text;
  const char* error;
  std::vector<std::string> sets = {};
};

class BadScenario : public testing::TestWithParam<BadCase> {};

TEST_P(BadScenario, IsNamed) {
  EXPECT_EQ(error_of(GetParam().text, GetParam().sets), GetParam().error);
}

const BadCase kBadCases[] = {
    {"UnknownKey", "[fetch]\ntoken = 5\n",
     "s.toml:2:1: key 'fetch.token': is not known; did you mean 'fetch.tokens'?"},
    {"UnknownSection", "[fetsh]\ntokens = 5\n",
     "s.toml:1:2: key 'fetsh': is not known; did you mean 'fetch'?"},
    {"KeyOutsideItsSection", "tokens = 5\n",
     "s.toml:1:1: key 'tokens': is not known; did you mean 'fetch.tokens'?"},
    {"NothingNear", "[run]\nxyzzyqwertz = 5\n",
     "s.toml:2:1: key 'run.xyzzyqwertz': is not known; accepted: backend, check, compat, deadline, "
     "fidelity, operation, repeat, seed"},
    {"WrongUnit", "[run]\ndeadline = \"5 GB\"\n",
     "s.toml:2:12: key 'run.deadline': \"5 GB\" is no time: unit \"GB\" is not known; accepted: s, "
     "ms, us, ns"},
    {"NoUnit", "[run]\ndeadline = 5\n",
     "s.toml:2:12: key 'run.deadline': 5 has no unit; accepted: a time with its unit: \"250 ns\", "
     "\"1.5 us\", \"100 s\""},
    {"WrongType", "[cluster]\nnodes = \"two\"\n",
     "s.toml:2:9: key 'cluster.nodes': the string \"two\" is not an integer; accepted: an integer "
     "from 1 to 65536"},
    {"Fraction", "[cluster]\nnodes = 1.5\n",
     "s.toml:2:9: key 'cluster.nodes': 1.5 is not an integer; accepted: an integer from 1 to "
     "65536"},
    {"SectionAsNumber", "run = 3\n",
     "s.toml:1:7: key 'run': 3 is not a section; accepted: backend, check, compat, deadline, "
     "fidelity, operation, repeat, seed"},
    {"UnknownChoice", "[cluster.network]\ntopology = \"rails\"\n",
     "s.toml:2:12: key 'cluster.network.topology': \"rails\" is not known, did you mean \"rail\"?; "
     "accepted: rail | fat_tree | single_switch | file"},
    {"UnknownBackend", "[run]\nbackend = \"simm\"\n",
     "s.toml:2:11: key 'run.backend': \"simm\" is not known, did you mean \"sim\"?; accepted: sim "
     "| "
     "loopback | nccl"},
    {"GpusDoNotDivide", "[cluster]\ngpus_per_domain = 3\n",
     "s.toml:2:19: key 'cluster.gpus_per_domain': 16 GPUs (2 nodes x 8) do not divide into NVLink "
     "domains of 3; accepted: a divisor of 8, or whole nodes that divide 2"},
    {"NodesDoNotDivide", "[cluster]\nnodes = 3\ngpus_per_node = 4\ngpus_per_domain = 8\n",
     "s.toml:4:19: key 'cluster.gpus_per_domain': 12 GPUs (3 nodes x 4) do not divide into NVLink "
     "domains of 8; accepted: a divisor of 4, or whole nodes that divide 3"},
    {"RowTooBig",
     "[table]\nhidden = 1073741824\ndtype = \"bf16\"\nscales = \"in_row\"\n"
     "scale_packs = 1\n",
     "s.toml:2:10: key 'table.hidden': a row of 2147483652 B is too big; accepted: at most "
     "2147483648 B (2 GiB)"},
    {"RowBytesTooBig", "[table]\nrow_bytes = \"3 GiB\"\n",
     "s.toml:2:13: key 'table.row_bytes': 3221225472 is too big; accepted: a size from 1 to "
     "2147483648 bytes: 4096, \"64 KiB\", \"1 MB\""},
    {"RowNotOfFour", "[table]\nrow_bytes = 262\n",
     "s.toml:2:13: key 'table.row_bytes': a row of 262 B is not a multiple of 4; accepted: 260 or "
     "264 B"},
    {"LayersDoNotMatch", "[table]\nentries_per_rank = [1, 2, 3]\nnum_layers = 2\n",
     "s.toml:2:20: key 'table.entries_per_rank': has 3 numbers for 2 layers (table.num_layers); "
     "accepted: 1 or 2"},
    {"RowsTwice", "[table]\nrows = [5]\nentries_per_rank = 5\n",
     "s.toml:2:8: key 'table.rows': table.entries_per_rank is set too; accepted: one of them"},
    {"NegativeElement", "[table]\nentries_per_rank = [5, -1]\n",
     "s.toml:2:20: key 'table.entries_per_rank': element 1: -1 is too small; accepted: an integer "
     "from 1 to 281474976710656, or a list of them"},
    {"QpsNegative", "[fetch]\nqps = -1\n",
     "s.toml:2:7: key 'fetch.qps': -1 is too small; accepted: an integer from 0 to 65536 (0 = "
     "planned)"},
    {"QpsTooMany", "[fetch]\nqps = 70000\n",
     "s.toml:2:7: key 'fetch.qps': 70000 is too big; accepted: an integer from 0 to 65536 (0 = "
     "planned)"},
    {"Overflow", "[fetch]\ntokens = 99999999999999999999\n",
     "s.toml:2:30: Error while parsing decimal integer: '99999999999999999999' is not "
     "representable "
     "in 64 bits; the line is: tokens = 99999999999999999999"},
    {"Syntax", "[fetch\ntokens = 5\n",
     "s.toml:1:7: Error while parsing table header: expected ']', saw '\\n'; the line is: [fetch"},
    {"TextMissing",
     "[fetch]\nworkload = \"ngram\"\nentries_per_token = 16\ntext = \"no/such.txt\"\n",
     "s.toml:4:8: key 'fetch.text': text file \"no/such.txt\" is not there; looked for no/such.txt "
     "and ./no/such.txt"},
    {"TextUnset", "[fetch]\nworkload = \"ngram\"\nentries_per_token = 16\n",
     "s.toml: key 'fetch.text': is not set; accepted: the path of a text file"},
    {"HashesDoNotMatch", "[fetch]\nworkload = \"ngram\"\ntext = \"/dev/null\"\nheads = 4\n",
     "s.toml:3:8: key 'fetch.text': text file \"/dev/null\" is not there\n"
     "s.toml: key 'fetch.entries_per_token': 24 with workload \"ngram\" of 2 orders x 4 heads; "
     "accepted: 8"},
    {"RankPastTheEnd", "[fetch]\nempty_ranks = [1, 16]\n",
     "s.toml:2:15: key 'fetch.empty_ranks': rank 16 of 16 ranks; accepted: 0 to 15"},
    {"SharesTooLarge", "[fetch]\nhot_fraction = 0.7\nfraction_empty = 0.5\n",
     "s.toml:2:16: key 'fetch.hot_fraction': 0.7 and fetch.fraction_empty = 0.5 are more than all; "
     "accepted: together at most 1"},
    {"FlushDepth", "[fetch]\ndepth = 64\nflush_depth = 65\n",
     "s.toml:3:15: key 'fetch.flush_depth': 65 is more than fetch.depth = 64; accepted: at most "
     "64"},
    {"LaneWithoutWeight",
     "[cluster.network.lanes]\nweights = { 0 = 1, 1 = 3 }\nsl_to_vl = { 3 = 2 }\n",
     "s.toml:3:12: key 'cluster.network.lanes.sl_to_vl': service level 3 takes lane 2, which has "
     "no "
     "weight; accepted: 0, 1"},
    {"Experts", "[run]\noperation = \"dispatch\"\n[expert_parallel]\nexperts = 250\n",
     "s.toml:4:11: key 'expert_parallel.experts': 250 experts do not divide over 16 ranks; "
     "accepted: a multiple of 16"},
    {"DepthNoPowerOfTwo", "[fetch]\ndepth = 1000\n",
     "s.toml:2:9: key 'fetch.depth': 1000 is no power of two; accepted: 512 or 1024"},
    {"LaneWithoutLevels", "[cluster.network.lanes]\nweights = { 0 = 1 }\n",
     "s.toml:2:11: key 'cluster.network.lanes.weights': cluster.network.lanes.sl_to_vl is missing; "
     "accepted: both"},
    {"LaneOfManagement", "[cluster.network.lanes]\nweights = { 15 = 1 }\nsl_to_vl = { 3 = 15 }\n",
     "s.toml:2:11: key 'cluster.network.lanes.weights': \"15\" is no number from 0 to 14; "
     "accepted: "
     "a table of lane (0 to 14) = weight (1 to 255): { 0 = 1, 1 = 3 }\n"
     "s.toml:3:12: key 'cluster.network.lanes.sl_to_vl': 3: 15 is too big; accepted: a table of "
     "service level (0 to 15) = lane (0 to 14): { 3 = 1 }"},
    {"BackgroundEndsFirst",
     "[[background]]\nrate = \"1 GB/s\"\nstart = \"2 us\"\nstop = \"1 us\"\n",
     "s.toml:4:8: key 'background[0].stop': 1000 ns is not after start, 2000 ns"},
    {"FaultWithoutDelay", "[[fault]]\nkind = \"late_visibility\"\ntarget = \"rank 3\"\n",
     "s.toml:1:1: key 'fault[0].delay': late_visibility needs one above 0"},
    {"FaultOfARankThatIsNot", "[[fault]]\nkind = \"rank_dead\"\ntarget = \"rank 16\"\n",
     "s.toml:3:10: key 'fault[0].target': \"rank 16\" is no target of rank_dead; accepted: \"rank "
     "N\" with N below 16"},
    {"FaultWithoutTarget", "[[fault]]\nkind = \"link_down\"\nat = \"5 us\"\n",
     "s.toml:1:1: key 'fault[0]': 'target' is missing"},
    {"FaultUnknownKey", "[[fault]]\nkind = \"link_down\"\ntargt = \"x\"\ntarget = \"link a\"\n",
     "s.toml:3:1: key 'fault[0].targt': is not known; did you mean 'target'?"},
    {"SweepUnknown", "[sweep]\n\"cluster.nods\" = [1]\n",
     "s.toml:2:1: key 'sweep.\"cluster.nods\"': is not known; did you mean 'cluster.nodes'?"},
    {"SweepValue", "[sweep]\n\"cluster.nodes\" = [2, \"x\"]\n",
     "s.toml:2:23: key 'sweep.\"cluster.nodes\"': the string \"x\" is not an integer; accepted: an "
     "integer from 1 to 65536"},
    {"SeveralInOrder", "[run]\nseed = -1\noperaton = \"fetch\"\n[cluster]\nnodes = 0\n",
     "s.toml:2:8: key 'run.seed': -1 is too small; accepted: an integer from 0 to "
     "9007199254740991\n"
     "s.toml:3:1: key 'run.operaton': is not known; did you mean 'run.operation'?\n"
     "s.toml:5:9: key 'cluster.nodes': 0 is too small; accepted: an integer from 1 to 65536"},
    {"SetValue",
     "",
     "--set fetch.qps=-1: key 'fetch.qps': -1 is too small; accepted: an integer "
     "from 0 to 65536 (0 = planned)",
     {"fetch.qps=-1"}},
    {"SetUnknown",
     "",
     "--set fetch.pqs=1: key 'fetch.pqs': is not known; did you mean 'fetch.qps'?",
     {"fetch.pqs=1"}},
    {"SetWithoutValue", "", "--set fetch: accepted: key=value, such as fetch.tokens=64", {"fetch"}},
    {"SetBelowAValue",
     "[fetch]\ntokens = 5\n",
     "--set fetch.tokens.x=1: key 'fetch.tokens' is not a section; set the whole of it",
     {"fetch.tokens.x=1"}},
    {"SetBroken",
     "",
     "--set fetch.orders=[1, 2: [1, 2 is no TOML value; accepted: a number, a "
     "\"string\", true, false or a [list]",
     {"fetch.orders=[1, 2"}},
};

INSTANTIATE_TEST_SUITE_P(Each, BadScenario, testing::ValuesIn(kBadCases),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(Scenario, ShowsFiveMistakesAndCountsTheRest) {
  const auto error = error_of(
      "[fetch]\nqps = -1\nsms = -1\nheads = -1\ndepth = -1\ntokens = -1\n"
      "hot_owner = -1\nexponent = -1\n");
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 5);
  EXPECT_TRUE(error.ends_with("\n... and 2 more")) << error;
}

TEST(Scenario, FileThatIsNotThere) {
  const auto s = load_scenario("/no/such.toml");
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().message, "/no/such.toml: cannot be read; accepted: the path of a scenario");
}

// Each shipped scenario loads, begins with what it shows, and holds the shape it is named after.
TEST(Scenario, ShippedFiles) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ENGRAM_SOURCE "/scenarios")) {
    if (entry.path().extension() != ".toml") continue;
    ++count;
    const auto s = load_scenario(entry.path().string());
    ASSERT_TRUE(s) << s.error().message;
    EXPECT_EQ(s->text.substr(0, 2), "# ") << entry.path();
  }
  EXPECT_GE(count, 9u);
  const auto production = load_scenario(ENGRAM_SOURCE "/scenarios/production.toml");
  EXPECT_EQ(production->table.row_bytes(), Bytes{264});
  EXPECT_EQ(production->table.rows_of_layers(32)[1], 384016682u);
  const auto v2 = load_scenario(ENGRAM_SOURCE "/scenarios/default_v2.toml");
  EXPECT_EQ(v2->num_ranks(), 4u);
  EXPECT_EQ(v2->fetch.tokens * v2->fetch.entries_per_token, 12288u);
  EXPECT_EQ(v2->table.rows_of_layers(4)[0], 4u * 524288u);
  const auto v25 = load_scenario(ENGRAM_SOURCE "/scenarios/default_v25.toml");
  EXPECT_EQ(v25->table.row_bytes(), Bytes{512});
  EXPECT_EQ(v25->table.entries_per_rank, (std::vector<std::uint64_t>{524288, 524309}));
}

}  // namespace
}  // namespace engram::tools
