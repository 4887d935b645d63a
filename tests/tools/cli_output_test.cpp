// Where commands write: files that cannot be written are named before anything runs, `-` is
// standard output in the place of the text.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace engram::tools {
namespace {

class Outputs : public Cli {
 protected:
  Ended run(const std::string& options) const {
    return engram("run " + file("s.toml", "[fetch]\ntokens = 4\n") + " " + options);
  }
};

TEST_F(Outputs, MinusPrintsOneThingInThePlaceOfTheText) {
  const auto json = run("--json -");
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_FALSE(nlohmann::json::parse(json.out, nullptr, false).is_discarded()) << json.out;
  const auto trace = run("--trace -");
  EXPECT_EQ(trace.status, 0) << trace.err;
  const auto events = nlohmann::json::parse(trace.out, nullptr, false);
  ASSERT_FALSE(events.is_discarded()) << trace.out;
  EXPECT_TRUE(events.contains("traceEvents"));
  const auto page = run("--report -");
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_TRUE(page.out.starts_with("<!doctype html>") || page.out.starts_with("<!DOCTYPE html>"))
      << page.out.substr(0, 100);
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(Outputs, TwoCannotNameOnePlace) {
  const auto both = run("--json - --trace -");
  EXPECT_EQ(both.status, 2);
  EXPECT_EQ(both.err, "engram: error: --json and --trace both name standard output\n");
  EXPECT_EQ(both.out, "");
  const auto same = run("--json " + path("x") + " --report " + path("x"));
  EXPECT_EQ(same.err, "engram: error: --json and --report both name " + path("x") + "\n");
  EXPECT_EQ(engram("sweep " + path("s.toml") + " --report -").status, 2);
}

TEST_F(Outputs, WhatCannotBeWrittenIsNamedBeforeTheRun) {
  for (const std::string option : {"--json", "--trace", "--report"}) {
    const auto ended = run(option + " " + path("no/such/x"));
    EXPECT_EQ(ended.status, 2) << option;
    EXPECT_EQ(ended.out, "") << "nothing ran";
    EXPECT_EQ(ended.err, "engram: error: " + option + " " + path("no/such/x") +
                             ": cannot be written: No such file or directory\n");
    const auto folder = run(option + " " + folder_.path().string());
    EXPECT_EQ(folder.status, 2);
    EXPECT_NE(folder.err.find("it is a folder"), std::string::npos) << folder.err;
  }
  // A run that fails leaves what was there, and no empty file.
  std::ofstream(path("kept")) << "old";
  EXPECT_EQ(run("--set fetch.tokens=-1 --json " + path("kept") + " --report " + path("new")).status,
            2);
  EXPECT_EQ(read_file(path("kept")), "old");
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Outputs, AWrongSeedIsNamedAsItWasTyped) {
  const auto ended = run("--seed -1");
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.err.find("--set"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("--seed -1: key 'run.seed': -1 is too small"), std::string::npos)
      << ended.err;
  EXPECT_NE(run("--backend sin").err.find("--backend sin: key 'run.backend'"), std::string::npos);
}

TEST_F(Outputs, AnInterruptedRunLeavesFilesAsTheyWere) {
  const std::string options = "--trace " + path("t.json") + " --json " + path("r.json");
  ASSERT_EQ(run(options).status, 0);
  const auto trace = read_file(path("t.json")), result = read_file(path("r.json"));
  ASSERT_FALSE(trace.empty());
  const auto ended = run(options + " --seed 670");
  EXPECT_EQ(ended.status, 130);
  EXPECT_EQ(ended.err, "engram: interrupted by SIGINT; unfinished files were not kept\n");
  EXPECT_EQ(read_file(path("t.json")), trace);
  EXPECT_EQ(read_file(path("r.json")), result);
  EXPECT_FALSE(fs::exists(path("t.json.part")));
  // A run that cannot be made keeps the earlier trace as well.
  EXPECT_EQ(run(options + " --seed 668").status, 3);
  EXPECT_EQ(read_file(path("t.json")), trace);
}

TEST_F(Outputs, ALinkStaysALinkAndItsEndIsReplaced) {
  std::ofstream(path("end.json")) << "old";
  fs::create_symlink(path("end.json"), path("link.json"));
  ASSERT_EQ(run("--json " + path("link.json")).status, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.json")));
  EXPECT_NE(read_file(path("end.json")), "old");
}

}  // namespace
}  // namespace engram::tools
