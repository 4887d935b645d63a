// Runs the program on a scenario that ships, and reads what it says.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "support/scratch_folder.hpp"

namespace engram::scenarios {

using Json = nlohmann::json;

struct Ended {
  int status = -1;
  std::string out, err;
  [[nodiscard]] Json json() const { return Json::parse(out, nullptr, false); }
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

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
  const std::string out = scratch("out"), err = scratch("err");
  const int status = std::system(
      (std::string(ENGRAM_BINARY) + " " + arguments + " >" + out + " 2>" + err + " </dev/null")
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
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
