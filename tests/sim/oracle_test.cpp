// SimGrid's own communications as the oracle: alone, a message takes latency + bytes / bandwidth.
// A program of its own: SimGrid reads its configuration once, with the first engine of a process.
#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include <rapidcheck/gtest.h>

#include "engram/sim/fork.hpp"
#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

namespace sg4 = simgrid::s4u;

// Seconds of one mailbox communication over a cable, a switch and a cable of SimGrid.
Result<std::string> simgrid_time(std::uint64_t bytes, double gigabytes, Nanos latency) {
  return run_forked([=]() -> Result<std::string> {
    std::vector<std::string> words = {"oracle",
                                      "--log=root.thres:critical",
                                      "--cfg=network/model:CM02",
                                      "--cfg=network/TCP-gamma:0",
                                      "--cfg=network/crosstraffic:0",
                                      "--cfg=surf/precision:1e-12"};
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    int count = static_cast<int>(pointers.size());
    sg4::Engine engine(&count, pointers.data());
    auto* zone = sg4::create_full_zone("zone");
    auto* a = zone->create_host("a", 1e9);
    auto* b = zone->create_host("b", 1e9);
    std::vector<sg4::LinkInRoute> way;
    for (const char* name : {"up", "down"}) {
      auto* link = zone->create_link(name, gigabytes * 1e9);
      link->set_latency(std::chrono::duration<double>(latency).count())->seal();
      way.emplace_back(link);
    }
    zone->add_route(a->get_netpoint(), b->get_netpoint(), nullptr, nullptr, way, true);
    zone->seal();
    double took = -1;
    auto* box = sg4::Mailbox::by_name("box");
    sg4::Actor::create("sender", a, [&] { box->put(new int(1), bytes); });
    sg4::Actor::create("receiver", b, [&] {
      delete box->get<int>();
      took = sg4::Engine::get_clock();
    });
    engine.run();
    return std::string(reinterpret_cast<const char*>(&took), sizeof took);
  });
}

Result<std::string> fabric_time(std::uint64_t bytes, double gigabytes, Nanos latency) {
  return run_forked([=]() -> Result<std::string> {
    model::Profile p = plain_profile();
    p.nic.request_latency = p.nic.response_latency = p.nic.completion_latency = Nanos{0};
    Rig rig({.profile = p, .topology = single_switch(2, gigabytes, latency)});
    Picos seen{0};
    rig.client.on_access = [&](QpId, const Request&) { seen = rig.engine->now(); };
    feed(rig, {rig.qp(0, 1)}, {.kind = RequestKind::write, .bytes = bytes}, 1);
    const double took = static_cast<double>(seen.count()) * 1e-12;
    return std::string(reinterpret_cast<const char*>(&took), sizeof took);
  });
}

double seconds(const Result<std::string>& bytes) {
  double value = 0;
  EXPECT_TRUE(bytes.has_value()) << (bytes.has_value() ? "" : bytes.error().message);
  if (bytes.has_value()) std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

RC_GTEST_PROP(Oracle, AMessageAloneTakesWhatSimGridSays, ()) {
  const auto bytes = *rc::gen::inRange<std::uint64_t>(1, 1 << 22);
  const auto gigabytes = *rc::gen::element(12.5, 25.0, 50.0, 100.0);
  const Nanos latency{*rc::gen::inRange(1, 5000)};
  const double expected = seconds(simgrid_time(bytes, gigabytes, latency));
  const double ours = seconds(fabric_time(bytes, gigabytes, latency));
  RC_ASSERT(std::abs(ours - expected) <= 1e-9 * expected + 1e-12);
}

}  // namespace
}  // namespace engram::sim::testing
