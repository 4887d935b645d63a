// The program as a person or a script meets it: what it prints, writes and ends with.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "csv.hpp"
#include "program.hpp"

namespace engram::tools {
namespace {

TEST_F(Cli, HelpShowsAnExampleOfEachCommand) {
  const auto help = engram("--help");
  EXPECT_EQ(help.status, 0);
  for (const std::string command : {"run", "plan", "sweep", "scenario", "topo", "trace",
                                    "trace diff", "validate", "launch", "doctor", "bench fetch"}) {
    EXPECT_NE(help.out.find("  " + command.substr(0, 5)), std::string::npos) << command;
    const auto own = engram(command + " --help");
    EXPECT_EQ(own.status, 0);
    EXPECT_NE(own.out.find("Example:\n  engram " + command), std::string::npos) << own.out;
  }
}

TEST_F(Cli, WrongUseIsBadInput) {
  for (const auto* arguments : {"", "frobnicate", "run", "run a b", "run --nonsense x", "trace",
                                "trace diff a", "scenario", "sweep x --jobs 0"}) {
    const auto ended = engram(arguments);
    EXPECT_EQ(ended.status, 2) << arguments;
    EXPECT_NE(ended.err, "") << arguments;
    EXPECT_EQ(ended.out, "") << arguments;
  }
}

TEST_F(Cli, AWordThatIsNoCommandIsNamedWithThoseThereAre) {
  EXPECT_EQ(engram("bench nosuch").err,
            "engram: error: engram bench: 'nosuch' is none of its commands; there are: fetch\n");
  EXPECT_EQ(engram("bench").err,
            "engram: error: engram bench: a command is missing; there are: fetch\n");
  EXPECT_NE(engram("frobnicate")
                .err.find("engram: 'frobnicate' is none of its commands; there are: run, plan, "),
            std::string::npos);
}

TEST_F(Cli, ExitStatusOfARun) {
  const auto scenario = file("s.toml", "[fetch]\ntokens = 4\n");
  EXPECT_EQ(engram("run " + scenario).status, 0);
  const auto wrong = engram("run " + scenario + " --seed 666");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.out.find("WRONG BYTES"), std::string::npos);
  const auto fault = engram("run " + scenario + " --seed 667");
  EXPECT_EQ(fault.status, 1);
  EXPECT_NE(fault.err.find("engram: failed: rank 3, peer 1, QP 0"), std::string::npos);
  const auto cannot = engram("run " + scenario + " --seed 668");
  EXPECT_EQ(cannot.status, 3);
  EXPECT_EQ(cannot.err, "engram: error: nccl: no GPU on this machine\n");
  EXPECT_EQ(engram("run " + scenario + " --seed 666 --set run.check=false").status, 0);
}

TEST_F(Cli, BadScenariosGiveOneClearError) {
  const auto scenario = file("s.toml", "[fetch]\nqps = -1\n");
  for (const std::string command : {"run ", "plan ", "sweep ", "scenario "}) {
    const auto ended = engram(command + scenario);
    EXPECT_EQ(ended.status, 2) << command;
    EXPECT_EQ(ended.err,
              "engram: error: " + scenario +
                  ":2:7: key 'fetch.qps': -1 is too small; accepted: an integer from 0 to "
                  "65536 (0 = planned)\n");
    EXPECT_EQ(ended.out, "");
  }
  const auto missing = engram("run " + path("none.toml"));
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("none.toml: cannot be read"), std::string::npos);
}

TEST_F(Cli, NothingButTheReportOnAPipe) {
  const auto ended = engram("run " + file("s.toml", "[run]\nrepeat = 3\n"));
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(ended.out.find('\r'), std::string::npos);
}

TEST_F(Cli, JsonToAFileOrInsteadOfTheReport) {
  const auto scenario = file("s.toml", "[fetch]\ntokens = 4\n");
  const auto printed = engram("run " + scenario + " --json - --backend loopback --seed 5");
  const auto json = nlohmann::json::parse(printed.out);
  EXPECT_EQ(json["backend"], "loopback");
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(engram("run " + scenario + " --json " + path("r.json")).status, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("r.json")))["ranks"], 16);
  const auto plan = nlohmann::json::parse(engram("plan " + scenario + " --json -").out);
  EXPECT_EQ(plan["lines"][0]["name"], "qps");
}

TEST_F(Cli, TraceAndReport) {
  const auto scenario = file("s.toml", "");
  const auto run = "run " + scenario + " --trace ";
  EXPECT_EQ(engram(run + path("a") + " --report " + path("r.html")).status, 0);
  EXPECT_EQ(engram(run + path("b")).status, 0);
  EXPECT_EQ(engram(run + path("c") + " --seed 2").status, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("a")))["traceEvents"].size(), 9u);
  EXPECT_NE(read_file(path("r.html")).find("<svg"), std::string::npos);
  const auto same = engram("trace diff " + path("a") + " " + path("b"));
  EXPECT_EQ(same.status, 0);
  EXPECT_EQ(same.out, "the traces are equal\n");
  const auto other = engram("trace diff " + path("a") + " " + path("c"));
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.out.find("event 0 differs in: args"), std::string::npos) << other.out;
  EXPECT_EQ(engram("trace diff " + path("a") + " " + scenario).status, 2);
}

TEST_F(Cli, EnvironmentIsRead) {
  const auto scenario = file("s.toml", "");
  const auto ended = engram("scenario " + scenario, "ENGRAM_SERVICE_LEVEL=77");
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err,
            "engram: error: environment variable ENGRAM_SERVICE_LEVEL: \"77\"; accepted: "
            "an integer from 0 to 15\n");
}

constexpr const char* kSweep =
    "[run]\nrepeat = 1\n[sweep]\n\"cluster.nodes\" = [1, 2, 4]\n\"fetch.tokens\" = [8, 16]\n";

TEST_F(Cli, SweepRunsEveryCombination) {
  const auto scenario = file("s.toml", kSweep);
  const auto ended = engram("sweep " + scenario + " --jobs 3 --csv " + path("s.csv") +
                            " --report " + path("s.html"));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const auto rows = parse_csv(read_file(path("s.csv")));
  ASSERT_EQ(rows.size(), 7u);
  std::set<std::pair<std::string, std::string>> points;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), rows[0].size());
    points.emplace(rows[i][0], rows[i][1]);
    EXPECT_EQ(rows[i][2], "ok");
    const auto column =
        std::find(rows[0].begin(), rows[0].end(), "time_us_median") - rows[0].begin();
    EXPECT_EQ(std::stod(rows[i][static_cast<std::size_t>(column)]),
              std::stod(rows[i][1]) * 0.5 + std::stod(rows[i][0]) * 8);
  }
  EXPECT_EQ(points.size(), 6u);
  EXPECT_NE(read_file(path("s.html")).find("fetch.tokens = 16"), std::string::npos);
}

TEST_F(Cli, SweepResumesAfterACut) {
  const auto scenario = file("s.toml", kSweep);
  const auto run = "sweep " + scenario + " --csv " + path("s.csv");
  EXPECT_EQ(engram(run).status, 0);
  const auto whole = read_file(path("s.csv"));
  // Head and two rows stay; the third is cut within.
  std::size_t cut = 0;
  for (int line = 0; line < 3; ++line) cut = whole.find('\n', cut) + 1;
  file("s.csv", whole.substr(0, cut + 20));
  const auto resumed = engram(run + " --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(std::count(resumed.out.begin(), resumed.out.end(), '\n'), 4);
  EXPECT_EQ(read_file(path("s.csv")), whole);
  EXPECT_EQ(engram(run + " --resume").out, "");  // nothing left to do
}

TEST_F(Cli, SweepRefusesToResumeAnother) {
  const auto run = "sweep " + file("s.toml", kSweep) + " --csv " + path("s.csv");
  EXPECT_EQ(engram(run).status, 0);
  const auto other = engram(run + " --resume --seed 9");
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("was made from another scenario"), std::string::npos);
  file("s.csv", "a,b\n1,2\n");
  const auto columns = engram(run + " --resume");
  EXPECT_EQ(columns.status, 2);
  EXPECT_NE(columns.err.find("s.csv:1: the columns are of another sweep: a,b"), std::string::npos);
  EXPECT_EQ(engram("sweep " + path("s.toml") + " --resume").status, 2);
}

TEST_F(Cli, SweepGoesOnAfterAPointThatFails) {
  const auto scenario = file("s.toml", "[sweep]\n\"run.seed\" = [1, 666, 667, 668, 669, 2]\n");
  const auto ended = engram("sweep " + scenario + " --jobs 2");
  EXPECT_EQ(ended.status, 1);
  const auto rows = parse_csv(ended.out);
  ASSERT_EQ(rows.size(), 7u);
  std::map<std::string, std::string> status;
  for (const auto& row : rows) status[row[0]] = row[1];
  EXPECT_EQ(status["1"], "ok");
  EXPECT_EQ(status["2"], "ok");
  EXPECT_EQ(status["666"], "wrong bytes");
  EXPECT_EQ(status["667"], "rank 3, peer 1, QP 0: 12 of 64 reads missing after 100 s");
  EXPECT_EQ(status["668"], "nccl: no GPU on this machine");
  EXPECT_EQ(status["669"], "ended by signal 6");
}

TEST_F(Cli, SweepChecksAllPointsBeforeTheFirst) {
  const auto scenario = file(
      "s.toml", "[cluster]\ngpus_per_node = 8\n[sweep]\n\"cluster.gpus_per_domain\" = [8, 3]\n");
  const auto ended = engram("sweep " + scenario + " --csv " + path("s.csv"));
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("point 2 of 2: cluster.gpus_per_domain=3"), std::string::npos)
      << ended.err;
  EXPECT_FALSE(fs::exists(path("s.csv")));
}

TEST_F(Cli, SweepRefusesAValueTwice) {
  const auto ended = engram("sweep " + file("s.toml", "[sweep]\n\"fetch.qps\" = [1, 2, 1]\n"));
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err, "engram: error: " + path("s.toml") +
                           ":2:22: key 'sweep.\"fetch.qps\"': 1 is listed twice; accepted: once\n");
  const auto set = engram("sweep " + path("s.toml") + " --set 'sweep.\"fetch.qps\"=[4,4]'");
  EXPECT_EQ(set.status, 2);
  EXPECT_NE(set.err.find("4 is listed twice"), std::string::npos) << set.err;
}

TEST_F(Cli, SweepKeepsWhatHasEndedWhenInterrupted) {
  // Seed 671 takes ten seconds: the shell interrupts once the two before it are in the table.
  const auto scenario = file("s.toml", "[sweep]\n\"run.seed\" = [1, 2, 671, 672]\n");
  const auto csv = path("s.csv"), page = path("s.html");
  for (const auto& [signal, status] : {std::pair{"INT", 130}, {"TERM", 143}, {"HUP", 129}}) {
    fs::remove(csv);
    const auto command = std::string(ENGRAM_BINARY) + " sweep " + scenario + " --csv " + csv +
                         " --report " + page + " >" + path("out") + " 2>" + path("err") +
                         " & sweep=$!; for i in $(seq 200); do [ \"$(grep -c ,ok, " + csv +
                         " 2>/dev/null)\" = 2 ] && break; sleep 0.05; done; kill -" + signal +
                         " $sweep; wait $sweep; echo $? >" + path("status");
    // As from a terminal: a shell without job control starts what is in the background deaf to INT.
    ASSERT_EQ(std::system(("bash -mc '" + command + "' 2>/dev/null").c_str()), 0);
    EXPECT_EQ(read_file(path("status")), std::to_string(status) + "\n");
    EXPECT_EQ(read_file(path("err")), "engram: warning: interrupted by SIG" + std::string(signal) +
                                          ": 2 of 4 points have ended and are in " + csv +
                                          "; --resume runs the others\n");
    EXPECT_EQ(parse_csv(read_file(csv)).size(), 3u);
    EXPECT_FALSE(fs::exists(csv + ".part"));
    EXPECT_NE(read_file(page).find("2 of 4 points have ended"), std::string::npos);
  }
}

// A reader of a pipe gets the head and all rows.
TEST_F(Cli, SweepWritesAPipeAtOnce) {
  const auto scenario = file("s.toml", kSweep);
  (void)std::system(("bash -c 'mkfifo " + path("pipe") + "; timeout 20 " + ENGRAM_BINARY +
                     " sweep " + scenario + " --csv " + path("pipe") +
                     " >/dev/null & sleep 0.2; timeout 20 cat " + path("pipe") + " >" +
                     path("copy") + "; wait'")
                        .c_str());
  EXPECT_EQ(parse_csv(read_file(path("copy"))).size(), 7u);
}

TEST_F(Cli, SweepWarnsOfAParameterThatChangesNothing) {
  const auto ended = engram("sweep " + file("s.toml", "[sweep]\n\"fetch.qps\" = [1, 2]\n"));
  EXPECT_EQ(ended.err, "engram: warning: fetch.qps took 2 values and changed no time\n");
  EXPECT_EQ(ended.status, 0);
}

TEST_F(Cli, LaunchEndsAsTheJobDid) {
  EXPECT_EQ(engram("launch -n 2 -- prog").status, 0);
  const auto failed = engram("launch -n 4 -- prog --flag");
  EXPECT_EQ(failed.status, 7);
  EXPECT_EQ(failed.err, "engram: rank 3 of 4: --flag\n");
  EXPECT_EQ(engram("launch -n 1 -- missing").status, 2);
  EXPECT_EQ(engram("launch -- prog").status, 2) << "the number of ranks is required";
}

TEST_F(Cli, DoctorEndsWith3WhereNoGpuCanBeUsed) {
  const auto ended = engram("doctor");
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.out, "no GPU\n");
  EXPECT_EQ(engram("doctor --json").out, "{}\n");
}

TEST_F(Cli, BenchFetchPrintsAsItGoesAndCountsWrongBytes) {
  const auto ended = engram("bench fetch --repeats 5 --json " + path("b.json"));
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, "rows us\n5 1.0\nskipped host: no memory\n");
  EXPECT_EQ(read_file(path("b.json")), "[]\n");
  EXPECT_EQ(engram("bench fetch --only wrong").status, 1);
  EXPECT_EQ(engram("bench fetch --device 9").status, 3);
  EXPECT_EQ(engram("bench fetch --repeats 0").status, 2);
}

TEST_F(Cli, AnImportRunsAsItIsAndAsOurToml) {
  const std::string fixtures = std::string(ENGRAM_SOURCE) + "/tests/model/fixtures/";
  const auto scenario = [&](const std::string& name, const std::string& graph, int nodes) {
    return file(name, "[cluster]\nnodes = " + std::to_string(nodes) +
                          "\ngpus_per_node = 1\n[cluster.network]\ntopology = \"file\"\nfile = \"" +
                          graph + "\"\n");
  };
  const auto shown = engram("topo " + fixtures + "graph.xml --json");
  ASSERT_EQ(shown.status, 0) << shown.err;
  const int ranks = nlohmann::json::parse(shown.out)["ranks"];
  const auto own = engram("topo --scenario " + scenario("x.toml", fixtures + "graph.xml", ranks) +
                          " --json --toml " + path("graph.toml"));
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_EQ(nlohmann::json::parse(own.out)["links"], nlohmann::json::parse(shown.out)["links"]);
  const auto again =
      engram("topo --scenario " + scenario("y.toml", path("graph.toml"), ranks) + " --json");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["links"], nlohmann::json::parse(shown.out)["links"]);

  const auto few = engram("topo --scenario " + scenario("z.toml", path("graph.toml"), ranks + 1));
  EXPECT_EQ(few.status, 2);
  EXPECT_NE(few.err.find("has NICs for " + std::to_string(ranks) + " ranks"), std::string::npos)
      << few.err;
  const auto machine =
      engram("topo --scenario " + scenario("m.toml", fixtures + "two_sockets.xml", 1));
  EXPECT_EQ(machine.status, 2);
  EXPECT_NE(machine.err.find("describes the inside of one machine"), std::string::npos);
  EXPECT_EQ(engram("topo " + file("hello.txt", "hello")).status, 2);
}

TEST_F(Cli, AFatTreeCanBeOversubscribed) {
  const auto count = [&](const std::string& keys) {
    const auto ended = engram("topo --json --scenario " +
                              file("f.toml",
                                   "[cluster]\nnodes = 3\n[cluster.network]\ntopology = "
                                   "\"fat_tree\"\nspines = 2\n" +
                                       keys));
    EXPECT_EQ(ended.status, 0) << ended.err;
    return nlohmann::json::parse(ended.out)["links"].size();
  };
  EXPECT_EQ(count(""), 2u * (3 * 8 + 3 * 8));                         // as many up as down
  EXPECT_EQ(count("uplinks_per_spine = 1\n"), 2u * (3 * 8 + 3 * 2));  // 4 : 1
  EXPECT_EQ(count("uplinks_per_spine = 1\nnodes_per_leaf = 2\n"), 2u * (3 * 8 + 2 * 2));
  const auto both =
      engram("topo --scenario " + file("g.toml",
                                       "[cluster.network]\ntopology = \"fat_tree\"\nleaves = "
                                       "2\nnodes_per_leaf = 1\n"));
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("cluster.network.leaves is set too"), std::string::npos) << both.err;
}

}  // namespace
}  // namespace engram::tools
