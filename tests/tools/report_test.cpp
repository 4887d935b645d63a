// What is written about a result: JSON, text, HTML.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "engram/tools/html_report.hpp"
#include "engram/tools/text_report.hpp"
#include "figures.hpp"
#include "sample_result.hpp"

namespace engram::tools {
namespace {

using tests::sample_result;

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Json, HasTheKeysOfTheInterface) {
  const auto json = to_json(sample_result());
  for (const char* key : {"operation", "backend",       "profile",    "fidelity",
                          "ranks",     "seed",          "version",    "verified",
                          "time_us",   "issue_us",      "wait_us",    "requests",
                          "doorbells", "payload_bytes", "wire_bytes", "logical_gbps",
                          "wire_gbps", "mpps",          "stages_us",  "sms",
                          "qps",       "paths",         "bound",      "floors_us",
                          "links",     "warnings",      "faults",     "congestion_control"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["time_us"]["median"], 284.312);
  EXPECT_EQ(json["time_us"]["min"], 281.004);
  EXPECT_EQ(json["paths"]["rdma"]["requests"], 98304);
  EXPECT_EQ(json["paths"]["rdma"]["bytes"], 98304 * 256);
  EXPECT_EQ(json["floors_us"]["line"], 62.915);
  EXPECT_EQ(json["links"][3]["name"], "nic3->leaf3");
  EXPECT_EQ(json["verified"], true);
  auto unchecked = sample_result();
  unchecked.verified.reset();
  EXPECT_TRUE(to_json(unchecked)["verified"].is_null());
  EXPECT_EQ(to_json_text(sample_result()), to_json_text(sample_result()));
}

TEST(TextReport, CountsOneWithoutAnS) {
  auto one = sample_result();
  one.ranks = one.sms = one.qps = 1;
  one.requests = one.doorbells = 1;
  one.congestion = RunResult::Congestion{"dcqcn", 1, 1, Bytes{300'000}, gigabytes_per_second(25)};
  const std::string text = text_report(one, {160, false, false});
  EXPECT_NE(text.find("fetch: 1 rank, sim"), std::string::npos) << text;
  EXPECT_NE(text.find("1 request, 1 doorbell, "), std::string::npos) << text;
  EXPECT_NE(text.find("1 SM, 1 QP"), std::string::npos) << text;
  EXPECT_NE(text.find("congestion: dcqcn marked 1 packet and slowed senders once, at most to 25.00 "
                      "GB/s; the longest queue at a switch was 300 kB"),
            std::string::npos)
      << text;
  EXPECT_NE(html_report(one, Scenario{}).find("congestion control: dcqcn marked 1 packet"),
            std::string::npos);
}

// Golden: change it on purpose, after a look, with the bytes the failing test prints.
TEST(TextReport, IsTheGoldenOne) {
  EXPECT_EQ(text_report(sample_result(), {80, false, false}),
            read_file(ENGRAM_SOURCE "/tests/tools/golden/report.txt"));
}

std::size_t columns(const std::string& line) {
  std::string bare = std::regex_replace(line, std::regex("\x1b\\[[0-9;]*[mK]"), "");
  return static_cast<std::size_t>(std::count_if(bare.begin(), bare.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

TEST(TextReport, BarsStayWithinTheWidth) {
  for (const std::uint32_t width : {60u, 80u, 120u, 200u}) {
    for (const bool utf8 : {false, true}) {
      std::istringstream lines(text_report(sample_result(), {width, utf8, utf8}));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(columns(line), width) << line;
      }
    }
  }
}

TEST(TextReport, ColourAndUtf8OnlyWhenAsked) {
  const auto plain = text_report(sample_result(), {});
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(),
                          [](char c) { return c == '\n' || (c >= 32 && c < 127); }));
  EXPECT_NE(text_report(sample_result(), {80, false, true}).find("\x1b["), std::string::npos);
  EXPECT_NE(text_report(sample_result(), {80, true, false}).find("█"), std::string::npos);
}

TEST(TextReport, SaysWhatFailed) {
  auto r = sample_result();
  r.verified = false;
  EXPECT_NE(text_report(r, {}).find("check: WRONG BYTES"), std::string::npos);
  r.failure = "rank 3: 12 of 64 reads missing";
  EXPECT_NE(text_report(r, {}).find("check: FAILED: rank 3: 12 of 64 reads missing"),
            std::string::npos);
}

TEST(Figures, KeepThreeDigits) {
  EXPECT_EQ(show(Nanos{812}), "812 ns");
  EXPECT_EQ(show(Nanos{9'994}), "9.99 us");
  EXPECT_EQ(show(Nanos{9'996}), "10.0 us");
  EXPECT_EQ(show(Nanos{999'600}), "1.00 ms");
  EXPECT_EQ(show(Nanos{2'500'000'000}), "2.50 s");
  EXPECT_EQ(show(Bytes{999}), "999 B");
  EXPECT_EQ(show(Bytes{3'145'728}), "3.15 MB");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(12'345'678), "12,345,678");
}

/// Every element that opens also closes, in order. Void elements and the doctype aside.
std::string unbalanced(const std::string& html) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-z][a-z0-9]*)([^>]*)>)");
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || name == "br" || rest.ends_with('/')) continue;
    if ((*it)[1] == "") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> after " + (open.empty() ? "nothing" : "<" + open.back() + ">");
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

void expect_self_contained(const std::string& html) {
  EXPECT_EQ(unbalanced(html), "");
  for (const char* outside : {"<script", "<link", "src=", "url(", "@import", "href="}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(HtmlReport, IsOneWholePage) {
  auto result = sample_result();
  result.topology_svg = "<svg id=\"net\"></svg>";
  result.warnings = {"a <b> & \"c\""};
  Scenario scenario;
  scenario.text = "[run]\n# <script>alert(1)</script>\n";
  scenario.path = "s.toml";
  scenario.set_overrides = {"fetch.tokens=5"};
  const auto html = html_report(result, scenario);
  expect_self_contained(html);
  for (const char* part : {"Timeline", "Floors against the result", "Which way the rows came",
                           "Busiest links", "<svg id=\"net\">", "--set fetch.tokens=5",
                           "&lt;script&gt;", "a &lt;b&gt; &amp; &quot;c&quot;", "rank 15: wait",
                           "outstanding_reads", "every byte compared"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
}

TEST(HtmlReport, HoldsWithNothingKnown) {
  const auto html = html_report(RunResult{}, Scenario{});
  expect_self_contained(html);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST(HtmlSweep, DrawsALineForEachSetting) {
  Scenario scenario;
  scenario.sweep = {{"cluster.nodes", {"2", "4", "16"}}, {"fetch.qps", {"1", "8"}}};
  std::vector<SweepPoint> points;
  for (const auto* nodes : {"2", "4", "16"}) {
    for (const auto* qps : {"1", "8"}) {
      points.push_back({{nodes, qps}, "ok", 10.0 * std::stod(nodes), 3, "line", 5});
    }
  }
  points.back().status = "timed out";
  const auto html =
      html_sweep_report(scenario, points, {"fetch.qps took 2 values and changed no time"});
  expect_self_contained(html);
  EXPECT_NE(html.find("fetch.qps = 8"), std::string::npos);
  EXPECT_NE(html.find("timed out"), std::string::npos);
  const std::regex circle("<circle");
  const auto circles = std::distance(std::sregex_iterator(html.begin(), html.end(), circle), {});
  EXPECT_EQ(circles, 10);  // five good points on two plots
}

}  // namespace
}  // namespace engram::tools
