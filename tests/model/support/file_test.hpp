// A folder for the files of one test, gone with it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace engram::model {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = std::filesystem::path(testing::TempDir()) /
           (std::string("engram_") + info->test_suite_name() + "_" + info->name());
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  /// Writes `text` and returns the file's path.
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
    return (dir_ / name).string();
  }
  /// An error's message without the folder; "accepted" for a result.
  template <class T>
  std::string refusal(const T& result) {
    if (result) return "accepted";
    std::string text = result.error().message;
    for (std::size_t at; (at = text.find(dir_.string() + "/")) != std::string::npos;) {
      text.erase(at, dir_.string().size() + 1);
    }
    return text;
  }

  std::filesystem::path dir_;
};

}  // namespace engram::model
