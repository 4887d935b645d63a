#include "diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace engram::tools {

std::string place_of(const toml::source_region& source) {
  const std::string file = source.path ? *source.path : "scenario";
  if (file.starts_with("--") || file.starts_with("[sweep]") || source.begin.line == 0) return file;
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

void Diagnostics::add(const toml::source_region& source, std::string_view key,
                      std::string_view what) {
  add(fmt::format("{}: key '{}': {}", place_of(source), key, what));
}

Error Diagnostics::error() const {
  std::string text;
  const auto shown = std::min(lines_.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += '\n';
    text += lines_[i];
  }
  if (lines_.size() > shown) text += fmt::format("\n... and {} more", lines_.size() - shown);
  return {ErrorCode::invalid_argument, std::move(text)};
}

}  // namespace engram::tools
