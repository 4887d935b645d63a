// Chrome trace JSON (chrome://tracing, Perfetto): a process a rank, threads for SMs, QPs, NIC and
// links. Written as events come; the same events give the same bytes.
#pragma once

#include <cstdint>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "engram/core/index.hpp"
#include "engram/core/units.hpp"

namespace engram::tools {

enum class TrackKind { stage, sm, qp, nic, link };

/// The process that holds what no rank owns: links between switches, cables.
inline constexpr Rank kNetworkProcess{1'000'000};

/// A row of the picture: `index` is the SM, QP, port or link number within the rank.
struct Track {
  Rank rank{};
  TrackKind kind = TrackKind::stage;
  std::uint32_t index = 0;
  auto operator<=>(const Track&) const = default;
};

struct TraceArg {
  std::string_view key;
  std::variant<std::int64_t, std::string_view> value;
};
using TraceArgs = std::span<const TraceArg>;

/// Takes events; a backend that traces gets one, or null.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  /// A name for a row, before its first event; else "link 3".
  virtual void name_track(Track track, std::string_view name) = 0;
  virtual void span(Track track, std::string_view name, Nanos start, Nanos duration,
                    TraceArgs args = {}) = 0;
  virtual void instant(Track track, std::string_view name, Nanos at, TraceArgs args = {}) = 0;
  /// An arrow from a request to its completion; `id` is unique in the trace. Both ends must lie
  /// inside a span of their track.
  virtual void flow_start(Track track, std::uint64_t id, Nanos at) = 0;
  virtual void flow_end(Track track, std::uint64_t id, Nanos at) = 0;
};

/// Writes to `out`, which must outlive it. finish() closes the JSON; without it the file is the
/// cut-off form that viewers still open.
class ChromeTraceWriter final : public TraceSink {
 public:
  explicit ChromeTraceWriter(std::ostream& out);
  void name_track(Track track, std::string_view name) override;
  void span(Track track, std::string_view name, Nanos start, Nanos duration,
            TraceArgs args) override;
  void instant(Track track, std::string_view name, Nanos at, TraceArgs args) override;
  void flow_start(Track track, std::uint64_t id, Nanos at) override;
  void flow_end(Track track, std::uint64_t id, Nanos at) override;
  void finish();
  [[nodiscard]] std::uint64_t num_events() const { return num_events_; }

 private:
  void begin_event(Track track, char phase, std::string_view name, Nanos at);
  void end_event(TraceArgs args);
  void metadata(Track track, std::string_view what, std::string_view name);

  std::ostream& out_;
  std::string line_;
  std::set<Track> named_;
  std::set<std::uint32_t> ranks_;
  std::uint64_t num_events_ = 0;
};

}  // namespace engram::tools
