// A folder of one test, gone with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace engram {

/// Tests run beside each other, and one test twice on a machine: the system picks a name that
/// nobody has. A test that writes files writes them here and nowhere else.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = testing::TempDir() + "engram_test_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::filesystem::filesystem_error("no folder for a test", name,
                                              std::error_code(errno, std::generic_category()));
    }
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes `text` into the file `name`, whose folders it makes; returns the file's path.
  std::string write(const std::filesystem::path& name, std::string_view text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace engram
