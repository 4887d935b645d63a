#include "engram/tools/chrome_trace.hpp"

#include <fmt/format.h>

#include <iterator>

namespace engram::tools {
namespace {

/// A thread's number within its process; kinds in the order they should stand.
std::uint64_t thread_of(Track track) {
  constexpr std::uint64_t kTracksOfAKind = 1'000'000;
  return static_cast<std::uint64_t>(track.kind) * kTracksOfAKind + track.index;
}

std::string default_name(Track track) {
  switch (track.kind) {
    case TrackKind::stage: return track.index == 0 ? "stages" : fmt::format("stages {}", track.index);
    case TrackKind::sm: return fmt::format("SM {}", track.index);
    case TrackKind::qp: return fmt::format("QP {}", track.index);
    case TrackKind::nic: return fmt::format("NIC {}", track.index);
    case TrackKind::link: return fmt::format("link {}", track.index);
  }
  return "?";
}

void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  line += '"';
}

/// Microseconds with three decimals: exact, since clocks count nanoseconds.
void append_time(std::string& line, Nanos time) {
  const auto count = time.count();
  const auto whole = count < 0 ? -count : count;
  fmt::format_to(std::back_inserter(line), "{}{}.{:03}", count < 0 ? "-" : "", whole / 1000,
                 whole % 1000);
}

}  // namespace

ChromeTraceWriter::ChromeTraceWriter(std::ostream& out) : out_(out) {
  out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
}

void ChromeTraceWriter::name_track(Track track, std::string_view name) {
  if (!named_.insert(track).second) return;
  if (ranks_.insert(track.rank.value).second) {
    metadata(track, "process_name",
             track.rank == kNetworkProcess ? "network" : fmt::format("rank {}", track.rank.value));
  }
  metadata(track, "thread_name", name);
}

void ChromeTraceWriter::span(Track track, std::string_view name, Nanos start, Nanos duration,
                             TraceArgs args) {
  begin_event(track, 'X', name, start);
  line_ += ",\"dur\":";
  append_time(line_, duration);
  end_event(args);
}

void ChromeTraceWriter::instant(Track track, std::string_view name, Nanos at, TraceArgs args) {
  begin_event(track, 'i', name, at);
  line_ += ",\"s\":\"t\"";
  end_event(args);
}

void ChromeTraceWriter::flow_start(Track track, std::uint64_t id, Nanos at) {
  begin_event(track, 's', "request", at);
  fmt::format_to(std::back_inserter(line_), ",\"cat\":\"request\",\"id\":{}", id);
  end_event({});
}

void ChromeTraceWriter::flow_end(Track track, std::uint64_t id, Nanos at) {
  begin_event(track, 'f', "request", at);
  fmt::format_to(std::back_inserter(line_), ",\"cat\":\"request\",\"id\":{},\"bp\":\"e\"", id);
  end_event({});
}

void ChromeTraceWriter::finish() {
  out_ << "\n]}\n";
  out_.flush();
}

void ChromeTraceWriter::begin_event(Track track, char phase, std::string_view name, Nanos at) {
  name_track(track, default_name(track));
  line_ = num_events_++ == 0 ? "\n{" : ",\n{";
  fmt::format_to(std::back_inserter(line_), "\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"name\":", phase,
                 track.rank.value, thread_of(track));
  append_quoted(line_, name);
  line_ += ",\"ts\":";
  append_time(line_, at);
}

void ChromeTraceWriter::end_event(TraceArgs args) {
  if (!args.empty()) {
    line_ += ",\"args\":{";
    bool first = true;
    for (const auto& [key, value] : args) {
      if (!first) line_ += ',';
      first = false;
      append_quoted(line_, key);
      line_ += ':';
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        fmt::format_to(std::back_inserter(line_), "{}", *number);
      } else {
        append_quoted(line_, std::get<std::string_view>(value));
      }
    }
    line_ += '}';
  }
  line_ += '}';
  out_ << line_;
}

void ChromeTraceWriter::metadata(Track track, std::string_view what, std::string_view name) {
  line_ = num_events_++ == 0 ? "\n{" : ",\n{";
  fmt::format_to(std::back_inserter(line_), "\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\"",
                 track.rank.value, thread_of(track), what);
  line_ += ",\"args\":{\"name\":";
  append_quoted(line_, name);
  line_ += "}}";
  out_ << line_;
}

}  // namespace engram::tools
