// Small fabrics for tests: a profile of round numbers, simple networks, a client that records.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engram/sim/engine.hpp"
#include "engram/sim/fabric.hpp"

namespace engram::sim::testing {

using namespace std::chrono_literals;

/// Rates high, latencies as given: a test sets the one limit it is about.
inline model::Profile plain_profile() {
  model::Profile p;
  p.name = "test";
  p.nic.port = gigabytes_per_second(50);
  p.nic.queue_depth = 1024;
  p.nic.outstanding_reads = 16;
  p.nic.request_latency = 1000ns;
  p.nic.response_latency = 500ns;
  p.nic.completion_latency = 500ns;
  p.nvlink.raw = gigabytes_per_second(422);
  p.nvlink.load_latency = 1087ns;
  p.nvlink.per_sm = gigabytes_per_second(48);
  p.nvlink.copy_launch = 9000ns;
  p.memory.hbm = gigabytes_per_second(1960);
  p.memory.hbm_latency = 391ns;
  p.memory.host_link = gigabytes_per_second(51.4);
  p.memory.host_latency = 1500ns;
  p.memory.host_reach = 600 * kMiB;
  p.memory.host_miss_rate = millions_per_second(31);
  return p;
}

/// All ranks on one switch; link 2r leads from rank r, link 2r + 1 to it.
inline model::Topology single_switch(std::uint32_t ranks, double gigabytes = 50,
                                     Nanos latency = 500ns) {
  std::vector<model::Vertex> vertices;
  std::vector<model::Link> links;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    vertices.push_back({"nic" + std::to_string(r), model::VertexKind::nic, 0, Rank{r}});
  }
  vertices.push_back({"switch", model::VertexKind::leaf, 0, std::nullopt});
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const std::string name = "nic" + std::to_string(r);
    const auto rate = gigabytes_per_second(gigabytes);
    links.push_back({name + "-up", {r}, {ranks}, rate, latency});
    links.push_back({name + "-down", {ranks}, {r}, rate, latency});
  }
  auto topology = model::Topology::create(vertices, links);
  EXPECT_TRUE(topology.has_value());
  return std::move(*topology);
}

/// `leaves` switches with `per_leaf` ranks each, every leaf linked to every spine.
inline model::Topology leaf_spine(std::uint32_t leaves, std::uint32_t per_leaf,
                                  std::uint32_t spines, double gigabytes = 50) {
  std::vector<model::Vertex> vertices;
  std::vector<model::Link> links;
  const std::uint32_t ranks = leaves * per_leaf;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    vertices.push_back({"nic" + std::to_string(r), model::VertexKind::nic, 0, Rank{r}});
  }
  for (std::uint32_t l = 0; l < leaves; ++l) {
    vertices.push_back({"leaf" + std::to_string(l), model::VertexKind::leaf, 0, std::nullopt});
  }
  for (std::uint32_t s = 0; s < spines; ++s) {
    vertices.push_back({"spine" + std::to_string(s), model::VertexKind::spine, 0, std::nullopt});
  }
  const auto cable = [&](std::uint32_t a, std::uint32_t b) {
    const auto rate = gigabytes_per_second(gigabytes);
    links.push_back({vertices[a].name + ">" + vertices[b].name, {a}, {b}, rate, 500ns});
    links.push_back({vertices[b].name + ">" + vertices[a].name, {b}, {a}, rate, 500ns});
  };
  for (std::uint32_t r = 0; r < ranks; ++r) cable(r, ranks + r / per_leaf);
  for (std::uint32_t l = 0; l < leaves; ++l) {
    for (std::uint32_t s = 0; s < spines; ++s) cable(ranks + l, ranks + leaves + s);
  }
  auto topology = model::Topology::create(vertices, links);
  EXPECT_TRUE(topology.has_value());
  return std::move(*topology);
}

/// Records every call as one line; hooks let a test act on it.
class RecordingClient : public FabricClient {
 public:
  struct Entry {
    std::string what;
    std::uint32_t qp;
    std::uint64_t tag;
    Picos at;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  void remote_access(QpId qp, const Request& r) override {
    accesses += r.count;
    log("access", qp, r.tag);
    if (on_access) on_access(qp, r);
  }
  void completed(QpId qp, const Request& r, Status status) override {
    (status == Status::ok ? completions : errors) += r.count;
    last_completion = engine->now();
    log(status == Status::ok ? "completed" : "failed", qp, r.tag);
    if (on_completed) on_completed(qp, r, status);
  }
  void slot_freed(QpId qp) override {
    log("slot", qp, 0);
    if (on_slot) on_slot(qp);
  }
  void timer(std::uint64_t tag) override {
    log("timer", {}, tag);
    if (on_timer) on_timer(tag);
  }
  void loaded(std::uint64_t tag) override {
    ++loads;
    last_load = engine->now();
    log("loaded", {}, tag);
  }
  void fault_began(const Fault& f) override { log(name_of(f.kind), {}, f.rank.value); }

  Engine* engine = nullptr;
  bool keep_log = false;
  std::uint64_t accesses = 0, completions = 0, errors = 0, loads = 0;
  Picos last_completion{0}, last_load{0};
  std::vector<Entry> entries;
  std::function<void(QpId, const Request&)> on_access;
  std::function<void(QpId, const Request&, Status)> on_completed;
  std::function<void(QpId)> on_slot;
  std::function<void(std::uint64_t)> on_timer;

 private:
  void log(const char* what, QpId qp, std::uint64_t tag) {
    if (keep_log) entries.push_back({what, qp.value, tag, engine->now()});
  }
};

/// An engine, a fabric and a recording client, torn down in order. `options.topology` says how
/// many ranks.
struct Rig {
  explicit Rig(FabricOptions options, Picos watchdog = 10s) {
    auto made = Engine::create({.ranks = options.topology.num_ranks(), .watchdog = watchdog});
    require(made.has_value(), made.has_value() ? "" : made.error().message);
    engine = std::move(*made);
    client.engine = engine.get();
    auto created = Fabric::create(*engine, client, std::move(options));
    require(created.has_value(), created.has_value() ? "" : created.error().message);
    fabric = std::move(*created);
    done = engine->create_semaphore("the end of the test");
  }
  ~Rig() {
    fabric.reset();
    engine.reset();
  }

  QpId qp(std::uint32_t local, std::uint32_t remote, std::uint32_t index = 0,
          const QpOptions& o = {}) {
    auto opened = fabric->open_qp(Rank{local}, QpIndex{index}, Rank{remote}, o);
    require(opened.has_value(), opened.has_value() ? "" : opened.error().message);
    return *opened;
  }

  /// Runs `body` on rank 0; the others return at once.
  Result<void> run(const std::function<void()>& body) {
    return engine->run([&](Rank rank) {
      if (rank == Rank{0}) body();
    });
  }

  /// From rank 0: issues through `start`, then waits until `wanted` completions (of any status)
  /// have come.
  Result<void> run_until(std::uint64_t wanted, const std::function<void()>& start) {
    auto inner = client.on_completed;
    client.on_completed = [this, wanted, inner](QpId qp, const Request& r, Status s) {
      if (inner) inner(qp, r, s);
      if (client.completions + client.errors == wanted) engine->release(done);
    };
    return run([&] {
      start();
      (void)engine->acquire(done);
    });
  }

  std::unique_ptr<Engine> engine;
  RecordingClient client;
  std::unique_ptr<Fabric> fabric;
  SemaphoreId done;
};

/// Keeps `total` equal requests going on `qps`: fills each queue, refills as slots come, rings when
/// a queue is full, each `batch` requests, and at the end.
class Feeder {
 public:
  Feeder(Rig& rig, std::vector<QpId> qps, Request request, std::uint64_t total,
         std::uint64_t batch = 16)
      : rig_(rig), qps_(std::move(qps)), request_(request), left_each_(qps_.size()), batch_(batch) {
    for (std::uint64_t i = 0; i < total; ++i) ++left_each_[i % qps_.size()];
  }
  void start() {
    for (std::size_t i = 0; i < qps_.size(); ++i) fill(i);
  }
  /// From RecordingClient::on_slot.
  void refill(QpId qp) {
    for (std::size_t i = 0; i < qps_.size(); ++i) {
      if (qps_[i] == qp) fill(i);
    }
  }

 private:
  void fill(std::size_t i) {
    std::uint64_t unrung = 0;
    while (left_each_[i] > 0 && rig_.fabric->has_slot(qps_[i])) {
      request_.tag = next_tag_++;
      rig_.fabric->post(qps_[i], request_);
      --left_each_[i];
      if (++unrung == batch_) {
        rig_.fabric->ring(qps_[i]);
        unrung = 0;
      }
    }
    if (unrung > 0) rig_.fabric->ring(qps_[i]);
  }

  Rig& rig_;
  std::vector<QpId> qps_;
  Request request_;
  std::vector<std::uint64_t> left_each_;
  std::uint64_t batch_, next_tag_ = 0;
};

/// Feeds `total` requests over `qps` from rank 0 and answers the time of the last completion.
inline Picos feed(Rig& rig, std::vector<QpId> qps, const Request& request, std::uint64_t total,
                  std::uint64_t batch = 16) {
  Feeder feeder(rig, std::move(qps), request, total, batch);
  rig.client.on_slot = [&](QpId qp) { feeder.refill(qp); };
  const auto result = rig.run_until(total, [&] { feeder.start(); });
  EXPECT_TRUE(result.has_value()) << (result.has_value() ? "" : result.error().message);
  EXPECT_EQ(rig.client.completions, total);
  return rig.client.last_completion;
}

}  // namespace engram::sim::testing
