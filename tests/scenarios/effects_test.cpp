// What each scenario claims: contention, lanes, planes, QPs, doorbells, storage, routing.
#include "program.hpp"

namespace engram::scenarios {
namespace {

TEST(Incast, TheOwnersNicServesAllAtItsRate) {
  const Json r = run("incast");
  EXPECT_EQ(r.at("bound"), "responder_rate");
  const double floor = r.at("floors_us").at("responder_rate");
  EXPECT_NEAR(floor, 7 * 1024 / 45.0, 1);
  EXPECT_GE(time_us(r), floor);
  EXPECT_LE(time_us(r), 1.25 * floor);
  const auto busiest =
      std::max_element(r.at("links").begin(), r.at("links").end(),
                       [](const Json& a, const Json& b) { return a.at("bytes") < b.at("bytes"); });
  EXPECT_EQ(busiest->at("name"), "nic0->switch");
}

// Set-up, barriers and checks between repeats are no part of what a link is said to carry.
TEST(Links, AreMeasuredWhileTheFetchRuns) {
  const auto of_owner = [](const Json& r) {
    for (const Json& link : r.at("links")) {
      if (link.at("name") == "nic0->switch") return link;
    }
    return Json();
  };
  for (const char* repeat : {"1", "4"}) {
    const Json r = run("incast", std::string("--set run.repeat=") + repeat);
    const Json link = of_owner(r);
    ASSERT_FALSE(link.is_null());
    const double payload = 7 * 1024 * (256 + 30.0);  // answers; a header each
    // A barrier's last signals may cross while the first ranks read.
    const double bytes = payload * std::stoi(repeat);
    EXPECT_NEAR(link.at("bytes").get<double>(), bytes, 0.002 * bytes);
    EXPECT_NEAR(link.at("busy").get<double>(), payload / 50e3 / time_us(r),
                0.02 * payload / 50e3 / time_us(r));
    EXPECT_NEAR(r.at("wire_bytes").get<double>(), payload + 7 * 1024 * 42.0, 0.002 * payload);
  }
}

// Zipfian indices name rows again and again: read once they move fewer bytes in less time, and
// every place still gets its row.
TEST(Dedup, RepeatedRowsAreReadOnceAndAllPlacesAreRight) {
  const std::string zipf =
      "--set 'fetch.workload=\"zipf\"' --set fetch.exponent=1.2 --set run.repeat=1 "
      "--set fetch.tokens=128 ";
  for (const char* backend : {"sim", "loopback"}) {
    const std::string on = zipf + "--backend " + backend;
    const Json all = run("quickstart", on),
               once = run("quickstart", on + " --set fetch.dedup=true");
    EXPECT_LT(once.at("payload_bytes").get<double>(), 0.8 * all.at("payload_bytes").get<double>());
    if (std::string_view(backend) == "sim") {
      EXPECT_LT(time_us(once), time_us(all));
    }
  }
}

TEST(Dedup, ThePlanCountsTheRowsThatAreRead) {
  const std::string sets = " --set 'fetch.workload=\"zipf\"' --set fetch.exponent=1.2";
  const Ended without = engram("plan " + scenario("quickstart") + sets);
  EXPECT_EQ(without.out.find("rows read once"), std::string::npos);
  const Ended plan = engram("plan " + scenario("quickstart") + sets + " --set fetch.dedup=true");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out.find("rows read once"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("that rank 0 asks for"), std::string::npos) << plan.out;
}

TEST(HostThreads, AreRefusedWhereNoGpuIsServed) {
  const Ended ended = engram("run " + scenario("quickstart") + " --set fetch.assist_threads=16");
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("key 'fetch.assist_threads': 16 is not available on the sim backend; "
                           "accepted: 0"),
            std::string::npos)
      << ended.err;
}

TEST(Lanes, WeightsShareAWireThreeToOneAndGiveAllToOneAlone) {
  const std::string small = "--set fetch.tokens=512 ";
  const double alone = run("lanes_weighted", small + "--set 'background=[]'").at("logical_gbps");
  const double heavy = run("lanes_weighted", small).at("logical_gbps");
  const double light =
      run("lanes_weighted", small + "--set 'cluster.network.lanes.weights={ 0 = 3, 1 = 1 }'")
          .at("logical_gbps");
  const double same =
      run("lanes_weighted", small + "--set cluster.network.service_level=1").at("logical_gbps");
  EXPECT_GT(alone, 46);
  EXPECT_NEAR(heavy / alone, 0.75, 0.04);
  EXPECT_NEAR(light / alone, 0.25, 0.04);
  EXPECT_NEAR(same / alone, 0.50, 0.05);
}

TEST(Lanes, AHotReceiverSlowsAVictimOfItsLaneAlone) {
  const std::string small = "--set fetch.tokens=256 ";
  const double alone = time_us(run("victim_lanes", small + "--set 'background=[]'"));
  const double own_lane = time_us(run("victim_lanes", small));
  const double same_lane =
      time_us(run("victim_lanes", small + "--set cluster.network.service_level=0"));
  EXPECT_LE(own_lane, 1.05 * alone);
  EXPECT_GE(same_lane, 2 * alone);
}

TEST(Networks, RailsSpareTheSpineForTeamsOfARail) {
  const std::string set = "--set cluster.mode=hybrid --set cluster.network.topology=";
  const Json rail = run("rail_fat_tree", set + "rail"),
             tree = run("rail_fat_tree", set + "fat_tree");
  EXPECT_LT(time_us(rail), 0.9 * time_us(tree));
  const auto spine_bytes = [](const Json& r) {
    double bytes = 0;
    for (const Json& link : r.at("links")) {
      if (link.at("name").get<std::string>().find("spine") != std::string::npos) {
        bytes += link.at("bytes").get<double>();
      }
    }
    return bytes;
  };
  EXPECT_LT(spine_bytes(rail), 0.01 * spine_bytes(tree));
}

TEST(Networks, PlanesCostNothingWhileQpsSpreadOverThem) {
  const double one = time_us(run("planes", "--set cluster.network.planes=1"));
  for (const char* planes : {"2", "4"}) {
    const Json r = run("planes", std::string("--set cluster.network.planes=") + planes);
    EXPECT_NEAR(time_us(r), one, 0.10 * one) << planes;
    EXPECT_EQ(warnings(r, "carries nothing"), 0u);
  }
  const Json idle = run("planes", "--set cluster.network.planes=2 --set fetch.qps=1");
  EXPECT_GE(time_us(idle), 1.8 * one);
  EXPECT_EQ(warnings(idle, "plane 1 of 2 carries nothing"), 1u);
}

TEST(Networks, EcmpCollidesWhereAdaptiveRoutingSpreads) {
  const Json ecmp = run("ecmp", "--set cluster.network.routing=ecmp");
  const Json adaptive = run("ecmp", "--set cluster.network.routing=adaptive");
  EXPECT_GT(time_us(ecmp), 1.05 * time_us(adaptive));
  EXPECT_GE(ecmp.at("warnings").size(), 1u);
  EXPECT_EQ(adaptive.at("warnings").size(), 0u) << adaptive.at("warnings");
}

TEST(Fetch, QpsAddReadsInFlightUpToTheNicsRate) {
  const std::string small = "--set fetch.tokens=128 --set fetch.qps=";
  const double reads = 128 * 24;
  const Json one = run("qps_sweep", small + "1");
  EXPECT_NEAR(reads / time_us(one), 1.7, 0.17);  // 16 in flight over 9.4 us
  EXPECT_EQ(one.at("bound"), "outstanding_reads");
  EXPECT_NEAR(time_us(one) / time_us(run("qps_sweep", small + "4")), 4, 0.4);
  double before = time_us(one);
  for (const char* qps : {"2", "8", "32", "132"}) {
    const double now = time_us(run("qps_sweep", small + qps));
    EXPECT_LE(now, 1.02 * before) << qps;
    before = now;
  }
  EXPECT_NEAR(before, reads / 45, 0.35 * reads / 45);
}

TEST(Fetch, ADoorbellARequestMakesTheIssueLonger) {
  const std::string set = "--set fetch.flush_depth=";
  const Json each = run("doorbells", set + "1"), sixteen = run("doorbells", set + "16");
  const Json wide = run("doorbells", set + "32"), late = run("doorbells", set + "768");
  EXPECT_EQ(each.at("doorbells"), each.at("requests"));
  // 16 warps share a QP's flush depth, so 16 is a ring a request too; the run says so.
  EXPECT_EQ(sixteen.at("doorbells"), each.at("doorbells"));
  EXPECT_EQ(warnings(sixteen, "fetch.flush_depth' has no effect"), 1u) << sixteen.at("warnings");
  EXPECT_EQ(2 * wide.at("doorbells").get<int>(), each.at("doorbells").get<int>());
  EXPECT_LT(wide.at("issue_us").get<double>(), each.at("issue_us").get<double>());
  EXPECT_LT(late.at("issue_us").get<double>(), wide.at("issue_us").get<double>());
}

TEST(Fetch, StorageMattersToLoadsMoreThanToTheNic) {
  const auto time = [](const std::string& placement, const std::string& nodes) {
    return time_us(
        run("storage", "--set table.placement=" + placement + " --set cluster.nodes=" + nodes));
  };
  EXPECT_GT(time("host", "1"), 3 * time("gpu", "1"));
  EXPECT_NEAR(time("host", "2"), time("gpu", "2"), 0.15 * time("gpu", "2"));
}

TEST(MemoryNode, ServesRowsAndAsksForNone) {
  const Json r = run("memory_node", "--set fetch.tokens=64");
  EXPECT_EQ(r.at("ranks"), 12);
  EXPECT_EQ(r.at("paths").at("rdma").at("requests").get<int>() +
                r.at("paths").at("host").at("requests").get<int>() +
                r.at("paths").at("local").at("requests").get<int>() +
                r.at("paths").at("nvlink").at("requests").get<int>(),
            8 * 64 * 24);
}

TEST(Serving, TheFetchKeepsItsShareBesideOtherLanes) {
  // Later repeats meet the queues that earlier ones left, so the median of three tells more than
  // one.
  const std::string three = "--set run.repeat=3 ";
  const double beside = time_us(run("disaggregated_serving", three));
  const double alone = time_us(run("disaggregated_serving", three + "--set 'background=[]'"));
  const double same =
      time_us(run("disaggregated_serving", three + "--set cluster.network.service_level=0"));
  EXPECT_LE(alone, beside);
  EXPECT_LE(beside, 2 * alone);  // half of every wire at least
  EXPECT_GT(same, 1.2 * beside);
}

// A swept setting that changes no time is named.
TEST(Settings, ThatAnotherSettingMakesIdleAreNamedOnce) {
  const std::string small = "--set fetch.tokens=32 --set ";
  for (const char* idle :
       {"cluster.network.file=net.toml", "cluster.network.spines=2",
        "cluster.network.nodes_per_leaf=1", "cluster.network.uplinks_per_spine=1",
        "cluster.network.service_level=5", "fetch.exponent=1.2", "fetch.text=a.txt",
        "fetch.file=a.trace", "expert_parallel.topk=4"}) {
    const Json r = run("incast", small + idle);
    const std::string key = std::string(idle).substr(0, std::string(idle).find('='));
    EXPECT_EQ(warnings(r, "key '" + key + "' has no effect"), 1u) << r.at("warnings");
    EXPECT_EQ(r.at("warnings").size(), 1u) << r.at("warnings");
  }
  EXPECT_EQ(run("incast", small + "run.repeat=1").at("warnings").size(), 0u);
}

// The profile's MTU gives way to the scenario's, a file's planes stand over those asked for.
TEST(Settings, ThatGiveWayToAnotherAreNamed) {
  const std::string small = "--set fetch.tokens=32 ";
  const Json mtu = run("incast", small + "--set cluster.override.network.mtu=1024");
  EXPECT_EQ(warnings(mtu,
                     "key 'cluster.override' has no effect: its network.mtu gives way to "
                     "cluster.network.mtu"),
            1u)
      << mtu.at("warnings");
  const Json one = run("incast", small),
             other = run("incast", small + "--set cluster.network.mtu=256");
  EXPECT_EQ(time_us(mtu), time_us(one));
  EXPECT_EQ(other.at("warnings").size(), 0u);

  const std::string net = scratch("net.toml");
  ASSERT_EQ(engram("topo --scenario " + scenario("incast") + " --toml " + net).status, 0);
  const Json file =
      run("incast", small + "--set cluster.network.topology=file " +
                        "--set cluster.network.file=" + net + " --set cluster.network.planes=2");
  EXPECT_EQ(warnings(file,
                     "key 'cluster.network.planes' has no effect: the topology file has its "
                     "own"),
            1u)
      << file.at("warnings");
  EXPECT_EQ(time_us(file), time_us(one));
}

TEST(Settings, ARateOfZeroIsNoLimitAndSaidToBe) {
  const std::string small =
      "--set fetch.tokens=32 --set 'cluster.override.nic.responder_rate=\"0 M/s\"'";
  const Json r = run("incast", small);
  EXPECT_EQ(warnings(r, "cluster.override.nic.responder_rate = 0 is no limit"), 1u)
      << r.at("warnings");
  EXPECT_LT(time_us(r), time_us(run("incast", "--set fetch.tokens=32")));
  const Ended none = engram("run " + scenario("incast") + " --set cluster.override.gpu.sms=0");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("gpu.sms: is 0; accepted: at least 1"), std::string::npos) << none.err;
}

TEST(Settings, AnUnknownKeyOfTheProfileIsSuggestedWhereItIs) {
  const auto refused = [](const std::string& set, const std::string& text) {
    const Ended ended = engram("run " + scenario("incast") + " --set cluster.override." + set);
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  refused("port='\"25 GB/s\"'", "did you mean \"nic.port\"?");
  refused("nic.raed_rate='\"1 M/s\"'", "did you mean \"nic.read_rate\"?");
  refused("nick.port='\"25 GB/s\"'", "did you mean \"nic\"?");
  refused("nic.wavelength=3", "accepted in nic: atomic_latency, atomic_rate, cache, ");
  refused("colour=3",
          "accepted: congestion, gpu, issue, memory, network, nic, nvlink, pcie, scope");
}

TEST(Sweep, NamesASettingWithoutEffect) {
  const std::string file = scratch("idle.toml");
  std::ofstream(file) << "[run]\nrepeat = 1\n[cluster]\nnodes = 1\ngpus_per_node = 2\n"
                         "[table]\nentries_per_rank = 1024\n[fetch]\ntokens = 16\n"
                         "[sweep]\n\"fetch.qps\" = [1, 2, 4]\n";
  const Ended ended = engram("sweep " + file);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.err.find("fetch.qps took 3 values and changed no time"), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace engram::scenarios
