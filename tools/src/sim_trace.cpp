#include "sim_trace.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace engram::tools {
namespace {

using Kind = sim::Track::Kind;

Nanos nanos(sim::Picos t) { return std::chrono::duration_cast<Nanos>(t); }

/// The process of a row, and the group that it stands in.
std::pair<Rank, TrackKind> place_of(sim::Track track) {
  switch (track.kind) {
    case Kind::qp:
      return {Rank{track.owner}, TrackKind::qp};
    case Kind::sm:
      return {Rank{track.owner}, TrackKind::sm};
    case Kind::nic_engine:
    case Kind::nic_responder:
    case Kind::nvlink:
      return {Rank{track.owner}, TrackKind::nic};
    case Kind::link:
      return {kNetworkProcess, TrackKind::link};
    case Kind::rank:
      break;
  }
  return {Rank{track.owner}, TrackKind::stage};
}

}  // namespace

SimTrace::SimTrace(TraceSink& sink, const bool& on, const model::Topology& topology)
    : sink_(sink), on_(on) {
  for (const model::Link& link : topology.links()) link_names_.push_back(link.name);
}

void SimTrace::name_qp(sim::QpId qp, Rank local, QpIndex index, Rank remote) {
  qp_names_[qp.value] = fmt::format("QP {} to rank {}{}", index.value, remote.value,
                                    local == remote ? " (itself)" : "");
}

SimTrace::Rows& SimTrace::rows_of(sim::Track track) {
  const auto key = std::tuple{static_cast<std::uint8_t>(track.kind), track.owner, track.index};
  Rows& rows = rows_[key];
  if (!rows.name.empty()) return rows;
  switch (track.kind) {
    case Kind::qp: {
      const auto known = qp_names_.find(track.index);
      rows.name =
          known == qp_names_.end() ? fmt::format("QP number {}", track.index) : known->second;
      break;
    }
    case Kind::sm:
      rows.name = fmt::format("SM {}", track.index);
      break;
    case Kind::nic_engine:
      rows.name = "NIC: requests";
      break;
    case Kind::nic_responder:
      rows.name = "NIC: responder";
      break;
    case Kind::nvlink:
      rows.name = track.index == 0 ? "NVLink out" : "NVLink in";
      break;
    case Kind::link:
      rows.name = track.index < link_names_.size() ? link_names_[track.index]
                                                   : fmt::format("link {}", track.index);
      break;
    case Kind::rank:
      rows.name = "faults";
      break;
  }
  return rows;
}

SimTrace::Row& SimTrace::add_row(sim::Track track, Rows& rows) {
  const auto [process, kind] = place_of(track);
  Row row{{process, kind, next_index_[{process.value, kind}]++}};
  sink_.name_track(row.track, rows.rows.empty()
                                  ? rows.name
                                  : fmt::format("{} ({})", rows.name, rows.rows.size() + 1));
  return rows.rows.emplace_back(row);
}

SimTrace::Row& SimTrace::free_row(sim::Track track, Nanos begin) {
  Rows& rows = rows_of(track);
  const auto found = std::ranges::find_if(rows.rows, [&](const Row& r) { return r.end <= begin; });
  return found == rows.rows.end() ? add_row(track, rows) : *found;
}

void SimTrace::span(sim::Track track, std::string_view name, sim::Picos begin, sim::Picos end,
                    std::uint64_t id) {
  if (!on_) return;
  // A request that started before the trace did has no arrow and no span.
  if (track.kind == Kind::qp && !arrow_of_.contains(id)) return;
  Row& row = free_row(track, nanos(begin));
  row.end = std::max(nanos(end), nanos(begin));
  if (track.kind == Kind::qp) last_qp_row_ = row.track;
  sink_.span(row.track, name, nanos(begin), row.end - nanos(begin));
}

void SimTrace::instant(sim::Track track, std::string_view name, sim::Picos at, std::uint64_t) {
  if (!on_) return;
  Rows& rows = rows_of(track);
  Row& row = rows.rows.empty() ? add_row(track, rows) : rows.rows.front();
  sink_.instant(row.track, name, nanos(at));
}

void SimTrace::flow_begin(sim::Track track, sim::Picos at, std::uint64_t id) {
  if (!on_) return;
  Rows& rows = rows_of(track);
  if (rows.rows.empty()) return;  // an arrow needs a span to leave from
  arrow_of_[id] = num_arrows_;
  sink_.flow_start(rows.rows.back().track, num_arrows_++, nanos(at));
}

void SimTrace::flow_end(sim::Track, sim::Picos at, std::uint64_t id) {
  const auto arrow = arrow_of_.find(id);
  if (arrow == arrow_of_.end()) return;
  // Its span, just written, ends at `at`: the arrow lands inside.
  if (on_) sink_.flow_end(last_qp_row_, arrow->second, nanos(at) - Nanos{1});
  arrow_of_.erase(arrow);
}

}  // namespace engram::tools
