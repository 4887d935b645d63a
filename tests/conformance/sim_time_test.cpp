// Times that the sim backend must show when one resource alone limits.
#include <gtest/gtest.h>

#include "engram/core/engram_table.hpp"
#include "engram/core/row_pattern.hpp"
#include "engram/model/profile_file.hpp"
#include "engram/model/topology_builders.hpp"
#include "engram/sim_backend/sim_backend.hpp"

namespace engram::test {
namespace {

constexpr Nanos kLimit = std::chrono::seconds{10};

/// A NIC that starts 45 M reads a second and is limited by nothing else.
model::Profile only_the_read_rate() {
  model::Profile profile = *model::load_profile("h100-cx7-400", model::default_profile_dirs());
  model::NicProfile& nic = profile.nic;
  nic.read_rate = millions_per_second(45);
  nic.responder_rate = nic.qp_rate = nic.doorbell_rate = millions_per_second(1e6);
  nic.port = gigabytes_per_second(1e5);
  nic.outstanding_reads = 1024;
  nic.cache = {};
  profile.pcie.rate = gigabytes_per_second(1e5);
  profile.gpu.kernel_launch = profile.gpu.kernel_drain = Nanos{0};
  profile.issue = {};
  profile.issue.warp_parallel = 32;
  return profile;
}

/// The slowest of four ranks, each fetching `tokens` x 24 rows of 256 B through its NIC.
Nanos compat_fetch(std::uint64_t tokens) {
  const model::Profile profile = only_the_read_rate();
  model::Cluster cluster;
  cluster.nodes = 4;
  cluster.gpus_per_node = 1;
  auto backend = sim_backend::make_sim(
      {.grid = *core::RankGrid::create(4, 1, core::Mode::direct),
       .fabric = {.profile = profile, .topology = *model::single_switch(cluster, profile)}});
  EXPECT_TRUE(backend);
  Nanos slowest{0};
  const auto ran = (*backend)->run([&](core::Transport& transport) -> Result<void> {
    const auto layout = core::TableLayout::create({{4 * 524'288, Bytes{256}}}, 4);
    core::EngramOptions options;
    options.largest = {1, tokens, 24};
    options.compat = true;
    options.overrides.qps = 64;
    options.segment = [](Rank, std::uint64_t, std::span<std::byte>) {};
    auto table = core::EngramTable::create(transport, *layout, options);
    if (!table) return tl::unexpected(table.error());
    std::vector<std::int64_t> indices(tokens * 24);
    // Evenly over the owners, so that no owner's NIC is a second bottleneck.
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] = static_cast<std::int64_t>(i % 4 * 524'288 + core::mix64(i) % 524'288);
    }
    if (auto all = transport.barrier(kLimit); !all) return all;
    const Nanos start = transport.now();
    auto fetch = table->fetch(options.largest, indices);
    if (!fetch) return tl::unexpected(fetch.error());
    if (auto done = table->wait(*fetch, LayerIndex{0}, kLimit); !done) return done;
    slowest = std::max(slowest, transport.now() - start);
    return table->finish(std::move(*fetch), kLimit);
  });
  EXPECT_TRUE(ran) << ran.error().message;
  return slowest;
}

// All 12,288 reads through the NIC at 45 M/s: 273 us, and one round trip.
TEST(SimTime, CompatFetchIsTheReadRatePlusOneRoundTrip) {
  const Nanos round_trip = compat_fetch(1);  // 24 reads: 0.5 us of it is their rate
  const Nanos expected = time_for(12'288, millions_per_second(45)) + round_trip;
  const Nanos measured = compat_fetch(512);
  EXPECT_NEAR(microseconds(measured), microseconds(expected), 0.02 * microseconds(expected));
  EXPECT_GT(microseconds(measured), 273.0);
}

}  // namespace
}  // namespace engram::test
