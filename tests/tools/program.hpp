// The program as tests of it run it: the binary that ENGRAM_BINARY names, whose run_scenario is
// fake_run.cpp's.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/scratch_folder.hpp"

namespace engram::tools {

namespace fs = std::filesystem;

struct Ended {
  int status;
  std::string out, err;
};

inline std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Runs the program in a folder of the test's own.
class Cli : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  Ended engram(const std::string& arguments, const std::string& before = "") const {
    const auto command = before + " " + ENGRAM_BINARY + " " + arguments + " >" + path("out") +
                         " 2>" + path("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path("out")),
            read_file(path("err"))};
  }

  ScratchFolder folder_;
};

}  // namespace engram::tools
