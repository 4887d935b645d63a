// The program as tests of it run it: the binary that ENGRAM_BINARY names, whose run_scenario is
// fake_run.cpp's.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/program.hpp"
#include "support/scratch_folder.hpp"

namespace engram::tools {

namespace fs = std::filesystem;

/// Runs the program in a folder of the test's own.
class Cli : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  Ended engram(const std::string& arguments, const std::string& before = "") const {
    return run_program(arguments, path("out"), path("err"), before);
  }

  ScratchFolder folder_;
};

}  // namespace engram::tools
