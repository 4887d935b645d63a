// Every fault is survived, or ends in an error within its stated time.
#include <gtest/gtest.h>

#include <map>

#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

constexpr Picos kTimeout = 20us;
constexpr std::uint32_t kRetries = 3;

FabricOptions with(std::vector<Fault> faults, model::Topology topology = single_switch(4)) {
  FabricOptions options{.profile = plain_profile(), .topology = std::move(topology)};
  options.faults = {std::move(faults), kTimeout, kRetries};
  return options;
}

// 200 reads from rank 0 to each of ranks 1 to 3, issued at once.
struct Outcome {
  std::map<std::uint32_t, std::uint64_t> ok, failed;  // by remote rank
  Picos last{0};
};
Outcome read_all(Rig& rig) {
  Outcome outcome;
  rig.client.on_completed = [&](QpId qp, const Request&, Status status) {
    const std::uint32_t remote = rig.fabric->qp_info(qp).remote.value;
    ++(status == Status::ok ? outcome.ok : outcome.failed)[remote];
    // A queue pair that failed stays failed: completions are in order, none is good after a bad
    // one.
    EXPECT_FALSE(status == Status::ok && outcome.failed.contains(remote));
  };
  const std::uint32_t ranks = rig.engine->num_ranks();
  const auto result = rig.run_until(200 * (ranks - 1), [&] {
    for (std::uint32_t r = 1; r < ranks; ++r) {
      const QpId qp = rig.qp(0, r);
      for (int i = 0; i < 200; ++i) rig.fabric->post(qp, {.bytes = 256});
      rig.fabric->ring(qp);
    }
  });
  EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : result.error().message);
  outcome.last = rig.client.last_completion;
  return outcome;
}

TEST(Faults, NoneIsTheSameAsNoPlan) {
  Rig rig(with({}));
  const Outcome outcome = read_all(rig);
  EXPECT_EQ(outcome.ok.at(2), 200u);
  EXPECT_TRUE(outcome.failed.empty());
}

TEST(Faults, ALinkThatComesBackIsSurvived) {
  Rig rig(with({{.kind = FaultKind::link_down, .at = 5us, .until = 30us, .link = {3}}}));  // to 1
  const Outcome outcome = read_all(rig);
  EXPECT_EQ(outcome.ok.at(1), 200u);
  EXPECT_TRUE(outcome.failed.empty());
  EXPECT_GT(outcome.last, Picos(30us));
  EXPECT_GT(rig.fabric->nic_counters(Rank{0}).resent, 0u);
}

TEST(Faults, ALinkThatStaysDownFailsItsQpInBoundedTime) {
  Rig rig(with({{.kind = FaultKind::link_down, .at = 5us, .link = {3}}}));
  const Outcome outcome = read_all(rig);
  EXPECT_EQ(outcome.ok.at(2), 200u);
  EXPECT_EQ(outcome.ok.at(3), 200u);
  EXPECT_GT(outcome.failed.at(1), 0u);
  EXPECT_EQ(rig.client.completions + rig.client.errors, 600u);
  EXPECT_LT(outcome.last, 5us + kTimeout * (kRetries + 1) + 20us);
}

TEST(Faults, ADeadOwnerFailsOnlyItsReaders) {
  for (const FaultKind kind : {FaultKind::rank_dead, FaultKind::memory_node_gone}) {
    Rig rig(with({{.kind = kind, .at = 8us, .rank = {2}}}));
    const Outcome outcome = read_all(rig);
    EXPECT_EQ(outcome.ok.at(1), 200u);
    EXPECT_EQ(outcome.ok.at(3), 200u);
    EXPECT_GT(outcome.failed.at(2), 100u);
    EXPECT_LT(outcome.last, 8us + kTimeout * (kRetries + 1) + 20us);
  }
}

TEST(Faults, ADeadReaderIsNamedByTheDeadlock) {
  Rig rig(with({{.kind = FaultKind::rank_dead, .at = 8us, .rank = {0}}}));
  const auto result = rig.run_until(200, [&] {
    for (int i = 0; i < 200; ++i) rig.fabric->post(rig.qp(0, 1), {.bytes = 256});
    rig.fabric->ring(rig.qp(0, 1));
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::deadlock);
  EXPECT_NE(result.error().message.find("rank 0"), std::string::npos);
}

TEST(Faults, AnotherSpineCarriesWhatOneLoses) {
  auto topology = leaf_spine(2, 4, 4);
  // Two spines lose their links to leaf 1; leaf 0 cannot know, a request sent again hashes anew.
  std::vector<Fault> faults;
  for (std::uint32_t i = 0; i < topology.links().size(); ++i) {
    const std::string& name = topology.links()[i].name;
    if (name == "spine0>leaf1" || name == "spine1>leaf1") {
      faults.push_back({.kind = FaultKind::link_down, .at = 5us, .link = {i}});
    }
  }
  ASSERT_EQ(faults.size(), 2u);
  FabricOptions options = with(std::move(faults), std::move(topology));
  options.faults.retries = 20;
  Rig rig(std::move(options));
  const Outcome outcome = read_all(rig);
  EXPECT_TRUE(outcome.failed.empty());
  EXPECT_GT(rig.fabric->nic_counters(Rank{0}).resent, 0u);
}

// Adaptive routing takes no spine that has no way on; the hash does, and sends again.
TEST(Faults, AdaptiveRoutingAvoidsASpineWithoutAWayOn) {
  for (const Routing routing : {Routing::adaptive, Routing::ecmp}) {
    auto topology = leaf_spine(2, 4, 4);
    std::vector<Fault> faults;
    for (std::uint32_t i = 0; i < topology.links().size(); ++i) {
      const std::string& name = topology.links()[i].name;
      if (name == "spine0>leaf1" || name == "spine3>leaf1") {
        faults.push_back({.kind = FaultKind::link_down, .link = {i}});
      }
    }
    ASSERT_EQ(faults.size(), 2u);
    FabricOptions options = with(std::move(faults), std::move(topology));
    options.routing = routing;
    options.faults.retries = 20;
    Rig rig(std::move(options));
    const Outcome outcome = read_all(rig);
    EXPECT_TRUE(outcome.failed.empty());
    EXPECT_EQ(rig.fabric->nic_counters(Rank{0}).resent > 0, routing == Routing::ecmp);
    EXPECT_GT(rig.fabric->fault_effects(0), 0u);  // it led packets elsewhere
  }
}

// Nothing leads on: lost, to the link that is down and not to one before it.
TEST(Faults, AQpTellsWhichFaultTookFromIt) {
  auto topology = leaf_spine(2, 4, 2);
  std::vector<Fault> faults;
  for (std::uint32_t i = 0; i < topology.links().size(); ++i) {
    if (topology.links()[i].name.ends_with(">leaf1") &&
        topology.links()[i].name.starts_with("spine")) {
      faults.push_back({.kind = FaultKind::link_down, .link = {i}});
    }
  }
  ASSERT_EQ(faults.size(), 2u);
  FabricOptions options = with(std::move(faults), std::move(topology));
  options.routing = Routing::adaptive;
  Rig rig(std::move(options));
  const QpId near = rig.qp(0, 1), far = rig.qp(0, 5);
  const Outcome outcome = read_all(rig);
  EXPECT_EQ(outcome.ok.at(1), 200u);
  EXPECT_EQ(outcome.failed.at(5), 200u);
  EXPECT_FALSE(rig.fabric->trouble(near).has_value());
  const auto trouble = rig.fabric->trouble(far);
  ASSERT_TRUE(trouble.has_value());
  EXPECT_LT(trouble->fault, 2u);
  EXPECT_TRUE(trouble->failed);
  EXPECT_GT(trouble->losses, 0u);
}

TEST(Faults, ASlowRankSlowsOnlyWhatItServes) {
  Rig rig(with({{.kind = FaultKind::rank_slow, .rank = {2}, .factor = 10}}));
  std::map<std::uint32_t, Picos> last;
  rig.client.on_access = [&](QpId qp, const Request&) {
    last[rig.fabric->qp_info(qp).remote.value] = rig.engine->now();
  };
  const Outcome outcome = read_all(rig);
  EXPECT_TRUE(outcome.failed.empty());
  EXPECT_GT(last.at(2), 1.8 * last.at(1));
}

TEST(Faults, ANicErrorKillsTheQpAndNoOther) {
  Rig rig(with({{.kind = FaultKind::nic_error, .at = 6us, .rank = {0}, .count = 1}}));
  const Outcome outcome = read_all(rig);
  EXPECT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(rig.client.completions + rig.client.errors, 600u);
  EXPECT_GE(rig.client.completions, 400u);
}

TEST(Faults, ADelayedDoorbellOnlyDelays) {
  Rig plain(with({}));
  const Picos usual = read_all(plain).last;
  plain.fabric.reset();
  plain.engine.reset();
  Rig rig(with({{.kind = FaultKind::delayed_doorbell, .rank = {0}, .delay = 50us}}));
  EXPECT_EQ(read_all(rig).last, usual + 50us);
}

TEST(Faults, CompletionsOfOtherQpsAreReorderedAndOfOneKept) {
  Rig rig(with({{.kind = FaultKind::reordered_completions, .rank = {0}, .delay = 10us}}));
  std::vector<std::uint64_t> order;
  std::map<std::uint32_t, std::uint64_t> next;
  rig.client.on_completed = [&](QpId qp, const Request& r, Status) {
    order.push_back(r.tag * 4 + qp.value);
    EXPECT_EQ(r.tag, next[qp.value]++);
  };
  const auto result = rig.run_until(40, [&] {
    for (std::uint64_t i = 0; i < 10; ++i) {
      for (std::uint32_t q = 0; q < 4; ++q) {
        rig.fabric->post(rig.qp(0, 1, q), {.bytes = 256, .tag = i});
        rig.fabric->ring(rig.qp(0, 1, q));
      }
    }
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(Faults, LateVisibilityShowsAfterTheCompletion) {
  Rig rig(with({{.kind = FaultKind::late_visibility, .rank = {1}, .delay = 50us}}));
  Picos seen{0}, completed{0};
  rig.client.on_access = [&](QpId, const Request&) { seen = rig.engine->now(); };
  const auto result = rig.run([&] {
    rig.fabric->post(rig.qp(0, 1), {.kind = RequestKind::write, .bytes = 64});
    rig.fabric->ring(rig.qp(0, 1));
    (void)rig.engine->sleep_for(1ms);
    completed = rig.client.last_completion;
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_GT(completed, Picos{0});
  EXPECT_GT(seen, completed);
}

// Put, then signal, on one QP: however late the data are seen, the signal is not seen before.
TEST(Faults, LateVisibilityDoesNotLetASignalPassItsData) {
  Rig rig(with({{.kind = FaultKind::late_visibility, .rank = {1}, .delay = 50us}}));
  std::vector<RequestKind> order;
  rig.client.on_access = [&](QpId, const Request& r) { order.push_back(r.kind); };
  const auto result = rig.run_until(2, [&] {
    rig.fabric->post(rig.qp(0, 1), {.kind = RequestKind::write, .bytes = 4096});
    rig.fabric->post(rig.qp(0, 1), {.kind = RequestKind::atomic_add, .bytes = 8});
    rig.fabric->ring(rig.qp(0, 1));
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(order, (std::vector{RequestKind::write, RequestKind::atomic_add}));
}

// An add whose answer is lost is sent again and takes effect once.
TEST(Faults, ALostAnswerDoesNotAddTwice) {
  Rig rig(with({{.kind = FaultKind::link_down, .at = 2700ns, .until = 10us, .link = {1}}}));
  const auto result = rig.run_until(1, [&] {
    rig.fabric->post(rig.qp(0, 1), {.kind = RequestKind::atomic_add, .bytes = 8});
    rig.fabric->ring(rig.qp(0, 1));
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(rig.fabric->nic_counters(Rank{0}).resent, 1u);
  EXPECT_EQ(rig.client.accesses, 1u);
  EXPECT_EQ(rig.client.completions, 1u);
}

TEST(Faults, APlanThatDoesNotFitIsRefused) {
  auto engine = Engine::create({.ranks = 4});
  RecordingClient client;
  const auto refused =
      Fabric::create(**engine, client, with({{.kind = FaultKind::rank_dead, .rank = {9}}}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("rank 9 of 4"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace engram::sim::testing
