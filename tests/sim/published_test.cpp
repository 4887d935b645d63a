// The profiles as they ship, through the simulated fabric, against published figures.
#include <gtest/gtest.h>

#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "sim/support.hpp"

namespace engram::sim::testing {
namespace {

model::Profile shipped(const char* name) {
  auto profile = model::load_profile(name, model::default_profile_dirs());
  EXPECT_TRUE(profile.has_value()) << (profile.has_value() ? "" : profile.error().message);
  return std::move(*profile);
}

FabricOptions on_switch(const model::Profile& profile, std::uint32_t ranks) {
  auto topology = model::single_switch({.nodes = ranks, .gpus_per_node = 1}, profile);
  EXPECT_TRUE(topology.has_value()) << (topology.has_value() ? "" : topology.error().message);
  return {.profile = profile, .topology = std::move(*topology)};
}

TEST(Published, DoorbellToCompletionOfASmallWrite) {
  Rig rig(on_switch(shipped("h200-cx7-200"), 2));
  EXPECT_NEAR(
      to_micros(feed(rig, {rig.qp(0, 1)}, {.kind = RequestKind::write_inline, .bytes = 8}, 1)),
      3.30, 0.05);
}

TEST(Published, OneReadFromHostMemory) {
  const model::Profile profile = shipped("h100-cx7-400");
  Rig rig(on_switch(profile, 2));
  const Request read{.remote_memory = Memory::host, .bytes = 256};
  const Nanos issue = profile.issue.first + profile.issue.build + profile.issue.doorbell;
  EXPECT_NEAR(microseconds(issue) + to_micros(feed(rig, {rig.qp(0, 1)}, read, 1)), 10, 0.2);
}

TEST(Published, OneQpReadsAtSixteenARoundTrip) {
  Rig rig(on_switch(shipped("h100-cx7-400"), 2));
  const Request read{.remote_memory = Memory::host, .bytes = 256};
  EXPECT_NEAR(5000 / to_micros(feed(rig, {rig.qp(0, 1)}, read, 5000)), 1.6, 0.16);
}

TEST(Published, BulkGetBandwidth) {
  Rig rig(on_switch(shipped("h100-cx7-400"), 2));
  std::vector<QpId> qps;
  for (std::uint32_t i = 0; i < 16; ++i) qps.push_back(rig.qp(0, 1, i));
  const Request read{.bytes = 1 << 20};
  EXPECT_NEAR(64 * (1 << 20) / to_micros(feed(rig, qps, read, 64)) / 1e3, 48.2, 2.4);
}

// Millions of 8-byte writes a second and NIC, `connections` at each; all ranks send, or one.
double write_rate(std::uint32_t connections, bool all_send) {
  constexpr std::uint32_t kRanks = 9;
  Rig rig(on_switch(shipped("h100-cx7-400"), kRanks));
  const std::uint64_t each = std::max<std::uint64_t>(20'000, 16 * connections);
  std::vector<QpId> qps;
  for (std::uint32_t r = 0; r < (all_send ? kRanks : 1); ++r) {
    for (std::uint32_t i = 0; i < connections; ++i) {
      qps.push_back(rig.qp(r, (r + 1 + i % (kRanks - 1)) % kRanks, i / (kRanks - 1)));
    }
  }
  const std::uint64_t senders = all_send ? kRanks : 1;
  const Picos took =
      feed(rig, qps, {.kind = RequestKind::write_inline, .bytes = 8}, senders * each, 16);
  return static_cast<double>(each) / to_micros(took);
}

TEST(Published, SendingOnlyStaysFlatInConnections) {
  EXPECT_NEAR(write_rate(512, false), 242, 24);
  EXPECT_NEAR(write_rate(16'384, false), 242, 24);
}

TEST(Published, AllToAllDeclinesWithConnections) {
  const double few = write_rate(256, true);
  EXPECT_NEAR(few, 152, 15);
  // Below the knee near 1,350; the first use of each is a miss.
  EXPECT_NEAR(write_rate(1200, true), few, 0.08 * few);
  const double many = write_rate(3000, true);
  EXPECT_NEAR(many / few, 0.41, 0.15 * 0.41) << many;
}

}  // namespace
}  // namespace engram::sim::testing
