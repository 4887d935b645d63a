// Chrome traces: valid, the same bytes for the same events, and compared event by event.
#include "engram/tools/chrome_trace.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engram/tools/trace_diff.hpp"
#include "support/scratch_folder.hpp"

namespace engram::tools {
namespace {

using Json = nlohmann::json;

struct Event {
  Track track;
  std::string name;
  Nanos start, duration;
};

std::string write(const std::vector<Event>& events) {
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  for (const auto& e : events) {
    const TraceArg args[] = {{"bytes", std::int64_t{256}},
                             {"peer", std::string_view("rank \"3\"")}};
    writer.span(e.track, e.name, e.start, e.duration, args);
  }
  writer.finish();
  return out.str();
}

// Any events: the text is JSON, times are exact to the nanosecond, names come before their use.
RC_GTEST_PROP(ChromeTrace, IsValidAndExact, ()) {
  const auto events = *rc::gen::container<std::vector<Event>>(rc::gen::exec([] {
    return Event{{Rank{*rc::gen::inRange<std::uint32_t>(0, 4)},
                  *rc::gen::element(TrackKind::sm, TrackKind::qp, TrackKind::nic, TrackKind::link),
                  *rc::gen::inRange<std::uint32_t>(0, 4)},
                 *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)),
                 Nanos{*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000)},
                 Nanos{*rc::gen::inRange<std::int64_t>(0, 1'000'000)}};
  }));
  const auto text = write(events);
  RC_ASSERT(text == write(events));
  const auto json = Json::parse(text);
  std::size_t next = 0;
  std::set<std::pair<int, int>> named;
  for (const auto& e : json["traceEvents"]) {
    const std::pair<int, int> where{e["pid"], e["tid"]};
    if (e["ph"] == "M") {
      if (e["name"] == "thread_name") RC_ASSERT(named.insert(where).second);
      continue;
    }
    RC_ASSERT(named.contains(where));
    const auto& event = events.at(next++);
    RC_ASSERT(e["name"] == event.name);
    RC_ASSERT(std::llround(e["ts"].get<double>() * 1000) == event.start.count());
    RC_ASSERT(std::llround(e["dur"].get<double>() * 1000) == event.duration.count());
    RC_ASSERT(e["args"]["peer"] == "rank \"3\"");
  }
  RC_ASSERT(next == events.size());
}

TEST(ChromeTrace, GoldenBytes) {
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  const Track qp{Rank{1}, TrackKind::qp, 5}, link{kNetworkProcess, TrackKind::link, 0};
  writer.name_track(link, "leaf0->spine1");
  writer.span(qp, "read", Nanos{1'234'567}, Nanos{5}, {});
  writer.flow_start(qp, 9, Nanos{1'234'567});
  writer.instant(link, "drop", Nanos{7}, {});
  writer.finish();
  EXPECT_EQ(out.str(), R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","pid":1000000,"tid":4000000,"name":"process_name","args":{"name":"network"}},
{"ph":"M","pid":1000000,"tid":4000000,"name":"thread_name","args":{"name":"leaf0->spine1"}},
{"ph":"M","pid":1,"tid":2000005,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":1,"tid":2000005,"name":"thread_name","args":{"name":"QP 5"}},
{"ph":"X","pid":1,"tid":2000005,"name":"read","ts":1234.567,"dur":0.005},
{"ph":"s","pid":1,"tid":2000005,"name":"request","ts":1234.567,"cat":"request","id":9},
{"ph":"i","pid":1000000,"tid":4000000,"name":"drop","ts":0.007,"s":"t"}
]}
)");
}

class TraceDiff : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }

 private:
  const ScratchFolder folder_;
};

TEST_F(TraceDiff, NamesTheFirstDifference) {
  const Track qp{Rank{1}, TrackKind::qp, 5}, nic{Rank{0}, TrackKind::nic, 0};
  std::vector<Event> events{{qp, "read", Nanos{10}, Nanos{5}}, {nic, "serve", Nanos{20}, Nanos{5}}};
  const auto a = file("a", write(events));
  events[1].start = Nanos{21};
  const auto b = file("b", write(events));
  const auto same = diff_traces(a, a);
  ASSERT_TRUE(same);
  EXPECT_FALSE(*same);
  const auto found = diff_traces(a, b);
  ASSERT_TRUE(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->event, 1u);
  EXPECT_NE((*found)->text.find("event 1 differs in: ts"), std::string::npos) << (*found)->text;
  EXPECT_NE((*found)->text.find("rank 0, NIC 0: 'serve' at 0.021 us"), std::string::npos)
      << (*found)->text;
  events.pop_back();
  const auto shorter = diff_traces(a, file("c", write(events)));
  ASSERT_TRUE(shorter && *shorter);
  EXPECT_NE((*shorter)->text.find("one trace has ended"), std::string::npos);
}

TEST_F(TraceDiff, RefusesWhatIsNoTrace) {
  const auto whole = write({{{Rank{0}, TrackKind::sm, 0}, "x", Nanos{1}, Nanos{1}}});
  const auto good = file("good", whole);
  EXPECT_EQ(diff_traces(good, "/no/such").error().message, "/no/such: cannot be read");
  const auto text = file("text", "hello\n");
  EXPECT_EQ(diff_traces(text, good).error().message,
            text + ":1: no trace; accepted: a file that `engram run --trace` wrote");
  const auto cut = file("cut", whole.substr(0, whole.rfind("\n]")));
  const auto error = diff_traces(cut, cut).error().message;
  EXPECT_TRUE(error.ends_with("the trace is cut off; accepted: a file that ends in ]}")) << error;
}

}  // namespace
}  // namespace engram::tools
