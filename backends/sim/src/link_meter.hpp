// What links carried while it was measured: set-up, checks and barriers between repeats are left
// out.
#pragma once

#include <string>
#include <vector>

#include "engram/core/backend.hpp"
#include "engram/sim/fabric.hpp"

namespace engram::sim_backend {

class LinkMeter {
 public:
  LinkMeter(const sim::Fabric& fabric, std::uint32_t num_ranks);

  /// A measured stretch begins or ends. Stretches do not overlap.
  void mark(bool begins, sim::Picos now);
  /// The stretch that goes on, if one does, ends here: the run has failed.
  void cut(sim::Picos now) {
    if (open_) mark(false, now);
  }
  /// Links, wire bytes and doorbells; of the whole run, which ended at `now`, if nothing was
  /// marked.
  void collect(sim::Picos now, core::BackendStats& stats) const;

 private:
  struct Meter {
    std::string name;
    const sim::LinkCounters* counters = nullptr;
    bool leaves_nic = false;
    sim::LinkCounters at_begin{}, measured{};
  };
  void add(std::string name, const sim::LinkCounters& counters, bool leaves_nic = false);

  const sim::Fabric& fabric_;
  const std::uint32_t num_ranks_;
  std::vector<Meter> meters_;
  bool marked_ = false, open_ = false;
  sim::Picos begun_{0}, length_{0};
};

}  // namespace engram::sim_backend
