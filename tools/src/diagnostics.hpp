// Collects what is wrong with a scenario, so that one run shows several mistakes.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::tools {

/// "file:line:column", or the argument itself for a value that --set brought.
[[nodiscard]] std::string place_of(const toml::source_region& source);

class Diagnostics {
 public:
  static constexpr std::size_t kMostShown = 5;

  void add(const toml::source_region& source, std::string_view key, std::string_view what);
  void add(std::string line) { lines_.push_back(std::move(line)); }
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  /// The first kMostShown lines, in the order found, and how many more there are.
  [[nodiscard]] Error error() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace engram::tools
