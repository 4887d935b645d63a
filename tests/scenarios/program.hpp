// Runs the program on a scenario that ships, and reads what it says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "support/program.hpp"
#include "support/scratch_folder.hpp"

namespace engram::scenarios {

using Json = nlohmann::json;

/// A path in a folder that all tests of this process share, under a name of this test's own.
inline std::string scratch(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  static const ScratchFolder folder;
  std::string file = std::string(test != nullptr ? test->name() : "suite") + "_" + name;
  std::replace(file.begin(), file.end(), '/', '_');  // of a test with a parameter
  return (folder.path() / file).string();
}

/// `arguments` as a shell would take them.
inline Ended engram(const std::string& arguments) {
  return run_program(arguments, scratch("out"), scratch("err"));
}

inline std::string scenario(const std::string& name) {
  return std::string(ENGRAM_SOURCE) + "/scenarios/" + name + ".toml";
}

/// `engram run` of a scenario that must end right: its result.
inline Json run(const std::string& name, const std::string& sets = "") {
  const Ended ended = engram("run " + scenario(name) + " --json - " + sets);
  EXPECT_EQ(ended.status, 0) << name << ' ' << sets << ": " << ended.err;
  const Json json = ended.json();
  EXPECT_FALSE(json.is_discarded()) << ended.out;
  EXPECT_EQ(json.value("verified", Json()), Json(true));
  return json;
}

inline double time_us(const Json& result) { return result.at("time_us").at("median"); }

/// Warnings that hold `text`.
inline std::size_t warnings(const Json& result, const std::string& text) {
  std::size_t found = 0;
  for (const auto& warning : result.at("warnings")) {
    found += warning.get<std::string>().find(text) != std::string::npos;
  }
  return found;
}

}  // namespace engram::scenarios
