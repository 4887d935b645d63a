// Faults: each is survived with the right bytes, or ends in a named error within stated time.
#include "program.hpp"

namespace engram::scenarios {
namespace {

/// A run that must end with status 1: its result.
Json failed(const std::string& name) {
  const Ended ended = engram("run " + scenario(name) + " --json -");
  EXPECT_EQ(ended.status, 1) << name << ended.out << ended.err;
  const Json json = ended.json();
  EXPECT_FALSE(json.is_discarded()) << ended.out;
  EXPECT_EQ(json.at("verified"), false);
  EXPECT_NE(ended.err.find(json.at("failure").get<std::string>()), std::string::npos) << ended.err;
  return json;
}

bool names(const Json& result, const std::string& text) {
  return result.at("failure").get<std::string>().find(text) != std::string::npos;
}

TEST(Faults, ANicErrorIsNamedWithRankPeerAndQp) {
  const Json r = failed("nic_error");
  EXPECT_TRUE(names(r, "rank 1 waited for rank ")) << r.at("failure");
  EXPECT_TRUE(names(r, " on QP ")) << r.at("failure");
  EXPECT_TRUE(names(r, "completed with an error")) << r.at("failure");
  EXPECT_EQ(r.at("faults").size(), 1u);
}

// A link's name alone may tell nothing (topology files), so its ends are named too, and who waits.
TEST(Faults, ADeadLinkIsNamedWithItsEndsAndThoseThatWait) {
  const std::string cut = "run " + scenario("link_flap") +
                          " --set 'fault=[{ kind = \"link_down\", at = \"60 us\", target = "
                          "\"link switch->nic1\" }]' ";
  for (const std::string fidelity : {"message", "batch", "flow"}) {
    const Ended ended = engram(cut + "--json - --set run.fidelity=" + fidelity);
    EXPECT_EQ(ended.status, 1);
    const Json r = ended.json();
    ASSERT_FALSE(r.is_discarded()) << ended.out;
    EXPECT_TRUE(names(r,
                      "cause: link_down of link switch->nic1 (leaf switch switch to NIC of rank 1) "
                      "at 60 us, which hit "))
        << r.at("failure");
    EXPECT_TRUE(names(r, " of rank 1 to rank ") || names(r, " to rank 1")) << r.at("failure");
    ASSERT_EQ(r.at("faults").size(), 1u) << r.at("faults");
    EXPECT_NE(r.at("faults")[0].get<std::string>().find("; failed: "), std::string::npos)
        << r.at("faults");
    // When it failed is known, how long a repeat takes is not.
    EXPECT_GT(r.at("failed_at_us").get<double>(), 460);
    EXPECT_LT(r.at("failed_at_us").get<double>(), 700);
    EXPECT_EQ(r.at("repeats"), 0);
    EXPECT_TRUE(r.at("time_us").at("median").is_null());
    EXPECT_TRUE(r.at("mpps").is_null());
    EXPECT_GT(r.at("links").size(), 0u);
    EXPECT_GT(r.at("links")[0].at("busy").get<double>(), 0.001);
  }
  const Ended text = engram(cut);
  EXPECT_NE(text.out.find("failed: at "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" us of simulated time; no repeat had ended"), std::string::npos);
  EXPECT_EQ(text.out.find(" 0 ns"), std::string::npos) << text.out;
}

// A spine that dies is one fault: adaptive routing goes round it, a hash sends again.
TEST(Faults, ADeadSwitchIsAllItsLinks) {
  const auto of = [](const std::string& at, const std::string& routing) {
    return run("ecmp", "--set cluster.network.routing=" + routing +
                           " --set 'fault=[{ kind = \"link_down\", target = \"switch spine0\", "
                           "at = \"" +
                           at + "\" }]'");
  };
  const Json round = of("0 us", "adaptive"), lost = of("0 us", "ecmp");
  for (const Json& r : {round, lost}) {
    ASSERT_EQ(r.at("faults").size(), 1u) << r.at("faults");
    EXPECT_NE(r.at("faults")[0].get<std::string>().find(" more links"), std::string::npos)
        << r.at("faults");
    EXPECT_EQ(warnings(r, "had no effect"), 0u) << r.at("warnings");
  }
  EXPECT_EQ(round.at("faults")[0].get<std::string>().find("sent again"), std::string::npos)
      << round.at("faults");
  EXPECT_GT(time_us(lost), time_us(round));
  for (const Json& link : round.at("links")) {
    EXPECT_EQ(link.at("name").get<std::string>().find("spine0"), std::string::npos) << link;
  }
  const Ended wrong = engram("run " + scenario("ecmp") + " --set 'fault=[{ kind = \"link_down\", " +
                             "target = \"switch spine9\" }]'");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("link_down: no switch \"spine9\" in this network; there is \""),
            std::string::npos)
      << wrong.err;
}

// Of a run that fails later, the repeats before count and the one that failed does not.
TEST(Faults, OnlyRepeatsThatEndedAreTimed) {
  const Json whole = run("link_flap", "--set 'fault=[]' --set run.repeat=3");
  const Ended ended = engram("run " + scenario("link_flap") +
                             " --json - --set run.repeat=3 --set 'fault=[{ kind = \"link_down\", "
                             "at = \"" +
                             std::to_string(80 + 2 * int(time_us(whole))) +
                             " us\", target = \"link switch->nic1\" }]'");
  EXPECT_EQ(ended.status, 1);
  const Json r = ended.json();
  ASSERT_FALSE(r.is_discarded()) << ended.out;
  ASSERT_GE(r.at("repeats").get<int>(), 1);
  ASSERT_LE(r.at("repeats").get<int>(), 2);
  EXPECT_NEAR(time_us(r), time_us(whole), 0.1 * time_us(whole));
  EXPECT_EQ(r.at("time_us").at("min").get<double>() > 0.5 * time_us(whole), true);
}

// Three resends 100 us apart: 400 us after the loss, long before the 10 ms of the deadline.
TEST(Faults, ADeadOwnerIsNamedInTime) {
  const Json r = failed("dead_owner");
  EXPECT_TRUE(names(r, "rank 2")) << r.at("failure");
  EXPECT_LE(r.at("failed_at_us").get<double>(), 60 + 400 + 150);
}

TEST(Faults, ALinkThatComesBackIsSurvived) {
  const Json flap = run("link_flap");
  EXPECT_EQ(flap.at("faults").size(), 1u);
  const double without = time_us(run("link_flap", "--set 'fault=[]'"));
  EXPECT_GT(time_us(flap), without + 50);
  EXPECT_LT(time_us(flap), without + 150 + 4 * 100);
}

TEST(Faults, ACorruptedRowIsCaught) {
  const Json r = failed("corrupted_row");
  EXPECT_TRUE(names(r, "the bytes are not those of row")) << r.at("failure");
}

// Every kind of fault, at every fidelity: survived with the right bytes, or an error that names
// what broke within the stated simulated time. Never a hang, never silence about a fault without
// effect.
struct Kind {
  const char* name;
  const char* faults;    // TOML
  const char* failure;   // a part of the error; "" = survived
  double within_us = 0;  // of the error
  bool slower = false;   // the survived fetch takes longer than without
  const char* sets = "";
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const Kind kKinds[] = {
    {"LinkStaysDown", R"({ kind = "link_down", at = "60 us", target = "link switch->nic1" })",
     "rank 1", 60 + 400 + 200},
    {"LinkComesBack",
     R"({ kind = "link_down", at = "60 us", target = "link switch->nic1" },
        { kind = "link_up", at = "210 us", target = "link switch->nic1" })",
     "", 0, true},
    {"RankDead", R"({ kind = "rank_dead", at = "60 us", target = "rank 2" })", "rank 2",
     60 + 400 + 200},
    {"MemoryNodeGone", R"({ kind = "memory_node_gone", at = "60 us", target = "rank 4" })",
     "rank 4", 60 + 400 + 200, false, "--set cluster.memory_nodes=1 "},
    {"RankSlow", R"({ kind = "rank_slow", target = "rank 2", delay = "100 ns" })", "", 0, true},
    {"NicError", R"({ kind = "nic_error", at = "60 us", target = "rank 1" })",
     "rank 1 waited for rank ", 60 + 200},
    {"NicErrorOnAQp", R"({ kind = "nic_error", at = "20 us", target = "rank 1 qp 3" })",
     "rank 1 waited for rank ", 60 + 200},
    {"DelayedDoorbell", R"({ kind = "delayed_doorbell", target = "rank 1", delay = "80 us" })", "",
     0, true},
    {"ReorderedCompletions",
     R"({ kind = "reordered_completions", target = "rank 1", delay = "80 us" })", "", 0, true},
    {"LateVisibility", R"({ kind = "late_visibility", target = "rank 1", delay = "80 us" })", ""},
    {"CorruptedMemory", R"({ kind = "corrupted_row", target = "rank 1" })",
     "the bytes are not those of row", 1000},
    {"CorruptedRow", R"({ kind = "corrupted_row", target = "layer 0 row 17" })",
     "the bytes are not those of row 17", 1000},
};

std::string sets_of(const Kind& kind, const std::string& fidelity, bool with_fault = true) {
  return "--set run.fidelity=" + fidelity + " --set table.entries_per_rank=64 " + kind.sets +
         "--set 'fault=[" + (with_fault ? kind.faults : "") + "]' ";
}

class EveryFault : public testing::TestWithParam<std::tuple<Kind, const char*>> {};

TEST_P(EveryFault, IsSurvivedOrNamedInTime) {
  const auto& [kind, fidelity] = GetParam();
  const Ended ended =
      engram("run " + scenario("corrupted_row") + " --json - " + sets_of(kind, fidelity));
  const Json r = ended.json();
  ASSERT_FALSE(r.is_discarded()) << ended.out << ended.err;
  EXPECT_EQ(r.at("fidelity"), fidelity);
  EXPECT_EQ(warnings(r, "had no effect"), 0u) << r.at("warnings");
  EXPECT_GE(r.at("faults").size(), 1u);
  if (std::string(kind.failure).empty()) {
    EXPECT_EQ(ended.status, 0) << r.at("failure");
    EXPECT_EQ(r.at("verified"), true);
    if (!kind.slower) return;
    const Json without = run("corrupted_row", sets_of(kind, fidelity, false));
    EXPECT_GT(time_us(r), 1.1 * time_us(without));
    return;
  }
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(names(r, kind.failure)) << r.at("failure");
  EXPECT_LE(r.at("failed_at_us").get<double>(), kind.within_us);
}

INSTANTIATE_TEST_SUITE_P(All, EveryFault,
                         testing::Combine(testing::ValuesIn(kKinds),
                                          testing::Values("message", "batch", "flow")),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param).name) + "_" +
                                  std::get<1>(of.param);
                         });

// Completions of other QPs overtake one another and words are seen late: the trace shows both.
TEST(Faults, LateAndReorderedEventsShowInTheTrace) {
  const std::string usual = scratch("usual.json"), changed = scratch("changed.json");
  const auto trace = [](const std::string& fault, const std::string& file) {
    const Ended ended = engram("run " + scenario("corrupted_row") + " --set fetch.tokens=16 " +
                               "--set 'fault=[" + fault + "]' --trace " + file);
    EXPECT_EQ(ended.status, 0) << ended.err;
  };
  trace("", usual);
  for (const char* fault :
       {"{ kind = \"late_visibility\", target = \"rank 1\", delay = \"80 us\" }",
        "{ kind = \"reordered_completions\", target = \"rank 1\", delay = "
        "\"80 us\" }"}) {
    trace(fault, changed);
    EXPECT_EQ(engram("trace diff " + usual + " " + changed).status, 1) << fault;
  }
}

TEST(Faults, OneWithoutEffectIsNamedWithItsPlace) {
  const auto warned = [](const std::string& fault, const std::string& text) {
    const Json r = run("corrupted_row", "--set 'fault=[" + fault + "]' ");
    EXPECT_EQ(warnings(r, "key 'fault[0]': "), 1u) << r.at("warnings");
    EXPECT_EQ(warnings(r, text), 1u) << r.at("warnings");
  };
  warned(R"({ kind = "rank_dead", target = "rank 1", at = "1 s" })",
         "rank_dead had no effect: it begins at 1000000.000 us, the run ended at ");
  warned(R"({ kind = "nic_error", target = "rank 1 qp 99" })",
         "nic_error had no effect: rank 1 started nothing on QP 99");
  warned(R"({ kind = "corrupted_row", target = "layer 0 row 17" })",
         "corrupted_row of layer 0 row 17 had no effect: nobody read that row");
}

TEST(Faults, AWrongTargetIsNamedWithFileLineAndKey) {
  const std::string file = scratch("faults.toml");
  const auto refused = [&](const std::string& fault, const std::string& set = "") {
    std::ofstream(file) << "[cluster]\nnodes = 2\ngpus_per_node = 1\n\n[[fault]]\n" << fault;
    const Ended ended = engram("run " + file + " " + set);
    EXPECT_EQ(ended.status, 2) << ended.out;
    return ended.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  std::string said = refused("kind = \"link_down\"\ntarget = \"link nowhere\"\n");
  has(said, "faults.toml:7:10: key 'fault[0].target': link_down: no link \"nowhere\"");
  said = refused("kind = \"nic_error\"\ntarget = \"rank 2 qp 0\"\n");
  has(said, "faults.toml:7:10: key 'fault[0].target': \"rank 2 qp 0\" is no target of nic_error");
  has(said, "\"rank N\" with N below 2, or \"rank N qp Q\"");
  said = refused("kind = \"rank_dead\"\ntarget = \"rank 1 qp 0\"\n");
  has(said, "is no target of rank_dead; accepted: \"rank N\" with N below 2");
  said = refused("kind = \"corrupted_row\"\ntarget = \"layer 3 row 1\"\n");
  has(said, "key 'fault[0].target': layer 3; accepted: below 1");
  said = refused("kind = \"corrupted_row\"\ntarget = \"layer 0 row 99999999\"\n");
  has(said, "row 99999999; accepted: below 1048576");
  said = refused("kind = \"late_visibility\"\ntarget = \"rank 1\"\n");
  has(said, "faults.toml:5:1: key 'fault[0].delay': late_visibility needs one above 0");
  said = refused("kind = \"rank_dead\"\ntarget = \"rank 1\"\ndelay = \"1 us\"\n");
  has(said, "faults.toml:8:9: key 'fault[0].delay': rank_dead takes none");
  said = refused("kind = \"link_up\"\ntarget = \"link nic0->leaf0\"\n");
  has(said, "no link_down of \"link nic0->leaf0\" at 0 ns or before");
  said = refused("kind = \"memory_node_gone\"\ntarget = \"rank 1\"\n");
  has(said, "accepted: a cluster with cluster.memory_nodes above 0");
  // What loopback cannot do is refused at its key, not ignored.
  said =
      refused("kind = \"rank_dead\"\nat = \"5 us\"\ntarget = \"rank 1\"\n", "--backend loopback");
  has(said, "faults.toml:7:6: key 'fault[0].at': a rank is dead from the start");
  said = refused("kind = \"nic_error\"\ntarget = \"rank 1\"\n", "--backend loopback");
  has(said,
      "faults.toml:6:8: key 'fault[0].kind': nic_error is not available; accepted: rank_dead");
}

}  // namespace
}  // namespace engram::scenarios
