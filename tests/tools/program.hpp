// The program as tests of it run it: the binary that ENGRAM_BINARY names, whose run_scenario is
// fake_run.cpp's.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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
  Cli() {
    dir_ = fs::path(testing::TempDir()) /
           ("engram_cli_" +
            std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
            std::to_string(getpid()));
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~Cli() override { fs::remove_all(dir_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return (dir_ / name).string();
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  Ended engram(const std::string& arguments, const std::string& before = "") const {
    const auto command = before + " " + ENGRAM_BINARY + " " + arguments + " >" + path("out") +
                         " 2>" + path("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path("out")),
            read_file(path("err"))};
  }

  fs::path dir_;
};

}  // namespace engram::tools
