// How fast the model runs: gets a second of wall time and memory, by ranks and fidelity.
//   fabric_bench [--ranks N] [--gets N] [--fidelity message|batch|flow] [--peers N] [--qps N]
// Every rank reads `gets` rows of 256 B, spread evenly over `peers` other ranks and `qps` QPs.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "engram/sim/engine.hpp"
#include "engram/sim/fabric.hpp"

namespace {

using namespace engram;
using namespace engram::sim;

// ConnectX-7 400 Gb/s as issue 2 uses it: 45 M reads/s; latencies that add up to about 10 us.
model::Profile profile() {
  using std::chrono::nanoseconds;
  model::Profile p;
  p.name = "bench";
  p.nic.port = gigabytes_per_second(50);
  p.nic.read_rate = millions_per_second(45);
  p.nic.responder_rate = millions_per_second(90);
  p.nic.doorbell_rate = millions_per_second(50);
  p.nic.header_bytes = 60;
  p.nic.request_bytes = 60;
  p.nic.request_latency = nanoseconds{2000};
  p.nic.response_latency = nanoseconds{1500};
  p.nic.completion_latency = nanoseconds{1500};
  p.pcie = {gigabytes_per_second(55), nanoseconds{1000}, nanoseconds{800}};
  p.network.buffer_per_lane = 256 * kKiB;
  return p;
}

model::Topology leaf_spine(std::uint32_t ranks) {
  const std::uint32_t per_leaf = std::min(ranks, 64u), leaves = (ranks + per_leaf - 1) / per_leaf;
  const std::uint32_t spines = leaves == 1 ? 0 : per_leaf;
  std::vector<model::Vertex> vertices;
  std::vector<model::Link> links;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    vertices.push_back({"nic" + std::to_string(r), model::VertexKind::nic, 0, Rank{r}});
  }
  for (std::uint32_t l = 0; l < leaves + spines; ++l) {
    const auto kind = l < leaves ? model::VertexKind::leaf : model::VertexKind::spine;
    vertices.push_back({"switch" + std::to_string(l), kind, 0, std::nullopt});
  }
  const auto cable = [&](std::uint32_t a, std::uint32_t b) {
    const auto rate = gigabytes_per_second(50);
    links.push_back({"", {a}, {b}, rate, std::chrono::nanoseconds{500}});
    links.push_back({"", {b}, {a}, rate, std::chrono::nanoseconds{500}});
  };
  for (std::uint32_t r = 0; r < ranks; ++r) cable(r, ranks + r / per_leaf);
  for (std::uint32_t l = 0; l < leaves; ++l) {
    for (std::uint32_t s = 0; s < spines; ++s) cable(ranks + l, ranks + leaves + s);
  }
  auto topology = model::Topology::create(std::move(vertices), std::move(links));
  require(topology.has_value(), topology.has_value() ? "" : topology.error().message);
  return std::move(*topology);
}

struct Setup {
  std::uint32_t ranks = 64, peers = 0, qps = 8;
  std::uint64_t gets = 12'288;
  Fidelity fidelity = Fidelity::message;
};

class Gets : public FabricClient {
 public:
  explicit Gets(const Setup& setup) : setup_(setup), left_(setup.ranks, setup.gets) {}

  void remote_access(QpId, const Request& request) override { accessed += request.count; }
  void completed(QpId qp, const Request& request, Status) override {
    std::uint64_t& left = left_[fabric->qp_info(qp).local.value];
    left -= request.count;
    if (left == 0) engine->release(waits[fabric->qp_info(qp).local.value]);
  }
  void slot_freed(QpId) override {}
  void timer(std::uint64_t) override {}
  void loaded(std::uint64_t) override {}

  void issue(Rank self) {
    const std::uint32_t peers = setup_.peers;
    if (setup_.fidelity == Fidelity::flow) {
      for (std::uint32_t p = 1; p <= peers; ++p) {
        const std::uint64_t count = setup_.gets * p / peers - setup_.gets * (p - 1) / peers;
        if (count == 0) continue;
        const auto done = fabric->bulk_flow({.local = self,
                                             .remote = {(self.value + p) % setup_.ranks},
                                             .count = count,
                                             .bytes_each = 256,
                                             .qps = setup_.qps});
        require(done.has_value(), "bulk_flow");
      }
      return;
    }
    std::vector<QpId> qps;
    const std::uint64_t used =
        std::min<std::uint64_t>(setup_.gets, std::uint64_t{peers} * setup_.qps);
    for (std::uint64_t i = 0; i < used; ++i) {
      const auto peer = static_cast<std::uint32_t>(1 + i % peers);
      const auto index = static_cast<std::uint32_t>(i / peers);
      const auto qp =
          fabric->open_qp(self, {index}, {(self.value + peer) % setup_.ranks}, {.depth = 32768});
      require(qp.has_value(), "open_qp");
      qps.push_back(*qp);
    }
    for (std::uint64_t i = 0; i < setup_.gets; ++i) {
      fabric->post(qps[i % used], {.bytes = 256, .tag = i});
    }
    for (const QpId qp : qps) fabric->ring(qp);
  }

  Engine* engine = nullptr;
  Fabric* fabric = nullptr;
  std::vector<SemaphoreId> waits;
  std::uint64_t accessed = 0;

 private:
  Setup setup_;
  std::vector<std::uint64_t> left_;
};

double wall_seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

int main(int argc, char** argv) {
  Setup setup;
  std::string fidelity = "message";
  CLI::App app("Speed of the simulated fabric");
  app.add_option("--ranks", setup.ranks);
  app.add_option("--peers", setup.peers, "0 = all others");
  app.add_option("--qps", setup.qps, "per peer");
  app.add_option("--gets", setup.gets, "per rank");
  app.add_option("--fidelity", fidelity)->check(CLI::IsMember({"message", "batch", "flow"}));
  CLI11_PARSE(app, argc, argv);
  for (const Fidelity f : {Fidelity::message, Fidelity::batch, Fidelity::flow}) {
    if (fidelity == name_of(f)) setup.fidelity = f;
  }
  if (setup.peers == 0) setup.peers = setup.ranks - 1;

  const auto begin = std::chrono::steady_clock::now();
  auto engine = Engine::create({.ranks = setup.ranks, .stack_kib = 64});
  Gets client(setup);
  auto fabric = Fabric::create(
      **engine, client,
      {.profile = profile(), .topology = leaf_spine(setup.ranks), .fidelity = setup.fidelity});
  require(fabric.has_value(), "Fabric::create");
  client.engine = engine->get();
  client.fabric = fabric->get();
  for (std::uint32_t r = 0; r < setup.ranks; ++r) {
    client.waits.push_back((*engine)->create_semaphore("the fetch"));
  }
  const auto result = (*engine)->run([&](Rank self) {
    client.issue(self);
    (void)(*engine)->acquire(client.waits[self.value]);
  });
  const double wall = wall_seconds(begin);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  const std::uint64_t gets = setup.gets * setup.ranks;
  require(result.has_value(), result.has_value() ? "" : result.error().message);
  require(client.accessed == gets, "every get reads once");
  std::printf(
      "%-7s ranks %5u peers %5u qps %3u gets %9llu: simulated %8.2f us, wall %6.2f s, CPU %6.2f s, "
      "%6.0f k gets/s of CPU, %5.2f events/get, %6.0f MB\n",
      fidelity.c_str(), setup.ranks, setup.peers, setup.qps, static_cast<unsigned long long>(gets),
      to_micros((*engine)->now()), wall, cpu, static_cast<double>(gets) / cpu / 1e3,
      static_cast<double>((*fabric)->num_events()) / static_cast<double>(gets),
      static_cast<double>(usage.ru_maxrss) / 1024);
  return 0;
}
