// The Chrome trace of a run: rows with names, spans that follow one another, arrows with both ends.
#include <map>
#include <set>

#include "program.hpp"

namespace engram::scenarios {
namespace {

using Where = std::pair<int, int>;

Json trace_of(const std::string& name, const std::string& sets) {
  const std::string path = scratch("trace.json");
  const Ended ended = engram("run " + scenario(name) + " " + sets + " --trace " + path);
  EXPECT_EQ(ended.status, 0) << ended.err;
  const Json json = Json::parse(read_file(path), nullptr, false);
  EXPECT_FALSE(json.is_discarded());
  return json.at("traceEvents");
}

Where where(const Json& event) { return {event.at("pid"), event.at("tid")}; }
// In whole nanoseconds, as written.
long start_of(const Json& event) { return std::lround(event.at("ts").get<double>() * 1e3); }
long end_of(const Json& event) {
  return start_of(event) + std::lround(event.at("dur").get<double>() * 1e3);
}

class Trace : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    events_ = trace_of("quickstart", "--set fetch.tokens=32 --set run.repeat=1");
    for (const Json& e : events_) {
      if (e.at("ph") == "X") spans_[where(e)].insert({start_of(e), end_of(e)});
    }
  }
  static Json events_;
  static std::map<Where, std::multiset<std::pair<long, long>>> spans_;
};
Json Trace::events_;
std::map<Where, std::multiset<std::pair<long, long>>> Trace::spans_;

TEST_F(Trace, NamesLinksNicsQpsAndSms) {
  std::set<std::string> names, processes;
  std::set<Where> named;
  for (const Json& e : events_) {
    if (e.at("ph") != "M") {
      EXPECT_TRUE(named.contains(where(e))) << e;
      continue;
    }
    const bool thread = e.at("name") == "thread_name";
    (thread ? names : processes).insert(e.at("args").at("name").get<std::string>());
    if (thread) named.insert(where(e));
  }
  EXPECT_TRUE(processes.contains("rank 0"));
  EXPECT_TRUE(processes.contains("network"));
  for (const char* name : {"leaf0->nic0", "NIC: requests", "NIC: responder", "SM 0"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_TRUE(names.contains("QP 0 to rank 8")) << *names.lower_bound("QP");
}

TEST_F(Trace, SpansOfARowFollowOneAnother) {
  EXPECT_GT(spans_.size(), 20u);
  for (const auto& [row, spans] : spans_) {
    long end = 0;
    for (const auto& [from, to] : spans) {
      EXPECT_GE(to, from);
      EXPECT_GE(from, end) << "process " << row.first << ", thread " << row.second;
      end = std::max(end, to);
    }
  }
}

TEST_F(Trace, ArrowsJoinTwoSpans) {
  std::map<std::uint64_t, const Json*> starts;
  std::size_t joined = 0;
  const auto in_span = [](const Json& e) {
    const long at = start_of(e);
    for (const auto& [from, to] : spans_[where(e)]) {
      if (from <= at && at <= to) return true;
    }
    return false;
  };
  for (const Json& e : events_) {
    if (e.at("ph") == "s") {
      EXPECT_TRUE(starts.emplace(e.at("id"), &e).second) << "an id is used twice: " << e;
      EXPECT_TRUE(in_span(e)) << e;
    }
    if (e.at("ph") != "f") continue;
    const auto start = starts.find(e.at("id"));
    ASSERT_NE(start, starts.end()) << "an arrow without a start: " << e;
    EXPECT_LE(start_of(*start->second), start_of(e));
    EXPECT_TRUE(in_span(e)) << e;
    ++joined;
  }
  EXPECT_GT(joined, 100u);
}

}  // namespace
}  // namespace engram::scenarios
