// A bar on a terminal, nothing on a pipe.
#pragma once

#include <fmt/format.h>

#include <ostream>
#include <string>

namespace engram::tools {

class Progress {
 public:
  Progress(std::ostream& out, bool shown) : out_(out), shown_(shown) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void update(std::size_t done, std::size_t total) {
    if (!shown_ || total == 0) return;
    constexpr std::size_t kCells = 30;
    const auto filled = done * kCells / total;
    out_ << fmt::format("\r[{:<{}}] {}/{}", std::string(filled, '#'), kCells, done, total)
         << std::flush;
    drawn_ = true;
  }

  /// Removes the bar, so that what follows starts on a clean line.
  void clear() {
    if (drawn_) out_ << "\r\x1b[K" << std::flush;
    drawn_ = false;
  }

 private:
  std::ostream& out_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace engram::tools
