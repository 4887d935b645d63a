// What the fabric tells while it runs, as rows of a Chrome trace with names and arrows.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engram/model/topology.hpp"
#include "engram/sim/observer.hpp"
#include "engram/tools/chrome_trace.hpp"

namespace engram::tools {

/// Rows hold spans that follow one another: what overlaps on a QP or an SM gets rows beside it.
/// An arrow leads from a request's start on its NIC to its span on the QP. `on` says when to write.
class SimTrace final : public sim::Observer {
 public:
  SimTrace(TraceSink& sink, const bool& on, const model::Topology& topology);

  /// Before the QP's first event.
  void name_qp(sim::QpId qp, Rank local, QpIndex index, Rank remote);

  void span(sim::Track track, std::string_view name, sim::Picos begin, sim::Picos end,
            std::uint64_t id) override;
  void instant(sim::Track track, std::string_view name, sim::Picos at, std::uint64_t id) override;
  void flow_begin(sim::Track track, sim::Picos at, std::uint64_t id) override;
  void flow_end(sim::Track track, sim::Picos at, std::uint64_t id) override;

 private:
  struct Row {
    Track track;
    Nanos end{};  ///< of its last span
  };
  struct Rows {
    std::string name;
    std::vector<Row> rows;
  };
  [[nodiscard]] Rows& rows_of(sim::Track track);
  [[nodiscard]] Row& add_row(sim::Track track, Rows& rows);
  /// The first row of `track` that is free from `begin` on.
  [[nodiscard]] Row& free_row(sim::Track track, Nanos begin);

  TraceSink& sink_;
  const bool& on_;
  std::vector<std::string> link_names_;
  std::map<std::uint32_t, std::string> qp_names_;
  std::map<std::tuple<std::uint8_t, std::uint32_t, std::uint32_t>, Rows> rows_;
  std::map<std::pair<std::uint32_t, TrackKind>, std::uint32_t> next_index_;
  std::unordered_map<std::uint64_t, std::uint64_t> arrow_of_;  // the fabric's ids come again
  std::uint64_t num_arrows_ = 0;
  Track last_qp_row_;
};

}  // namespace engram::tools
