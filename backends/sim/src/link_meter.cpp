#include "link_meter.hpp"

#include <algorithm>

namespace engram::sim_backend {

LinkMeter::LinkMeter(const sim::Fabric& fabric, std::uint32_t num_ranks)
    : fabric_(fabric), num_ranks_(num_ranks) {
  const model::Topology& topology = fabric.options().topology;
  const auto links = topology.links();
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    const model::Vertex& from = topology.vertices()[links[l].from.value];
    add(links[l].name, fabric.link_counters(model::LinkIndex{l}),
        from.kind == model::VertexKind::nic);
  }
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    add(fmt::format("nvlink.{}.in", r), fabric.nvlink_in(Rank{r}));
    add(fmt::format("nvlink.{}.out", r), fabric.nvlink_out(Rank{r}));
    add(fmt::format("host.{}", r), fabric.host_link(Rank{r}));
  }
}

void LinkMeter::add(std::string name, const sim::LinkCounters& counters, bool leaves_nic) {
  meters_.push_back({.name = std::move(name), .counters = &counters, .leaves_nic = leaves_nic});
}

void LinkMeter::mark(bool begins, sim::Picos now) {
  marked_ = true;
  open_ = begins;
  if (begins) {
    begun_ = now;
  } else {
    length_ += now - begun_;
  }
  for (Meter& meter : meters_) {
    if (begins) {
      meter.at_begin = *meter.counters;
    } else {
      meter.measured.busy += meter.counters->busy - meter.at_begin.busy;
      meter.measured.bytes += meter.counters->bytes - meter.at_begin.bytes;
    }
  }
}

void LinkMeter::collect(sim::Picos now, core::BackendStats& stats) const {
  const double length =
      static_cast<double>(std::max<std::int64_t>(1, (marked_ ? length_ : now).count()));
  for (const Meter& meter : meters_) {
    const sim::LinkCounters& counters = marked_ ? meter.measured : *meter.counters;
    if (counters.bytes == 0) continue;
    // What began to cross just before the end counts whole: never more than all of the time.
    const double busy = std::min(1.0, static_cast<double>(counters.busy.count()) / length);
    stats.links.push_back({meter.name, busy, Bytes{counters.bytes}});
    if (meter.leaves_nic) stats.wire += Bytes{counters.bytes};
  }
  for (std::uint32_t r = 0; r < num_ranks_; ++r) {
    stats.doorbells += fabric_.nic_counters(Rank{r}).doorbells;
  }
}

}  // namespace engram::sim_backend
