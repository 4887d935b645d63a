// Tests of what reads a file: they write it into a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/scratch_folder.hpp"

namespace engram::model {

class FileTest : public testing::Test {
 protected:
  /// Writes `text` and returns the file's path.
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// An error's message without the folder; "accepted" for a result.
  template <class T>
  std::string refusal(const T& result) const {
    if (result) return "accepted";
    std::string text = result.error().message;
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at; (at = text.find(folder)) != std::string::npos;) {
      text.erase(at, folder.size());
    }
    return text;
  }

  ScratchFolder folder_;
};

}  // namespace engram::model
