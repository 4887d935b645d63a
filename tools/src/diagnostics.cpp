#include "diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace engram::tools {

std::string place_of(const toml::source_region& source) {
  const std::string file = source.path ? *source.path : "scenario";
  if (file.starts_with("--") || file.starts_with("[sweep]") || source.begin.line == 0) return file;
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

void Diagnostics::add(const toml::source_region& source, std::string_view key,
                      std::string_view what) {
  lines_.push_back({source.begin.line, source.begin.column,
                    fmt::format("{}: key '{}': {}", place_of(source), key, what)});
}

Error Diagnostics::error() const {
  auto lines = lines_;
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  std::string text;
  const auto shown = std::min(lines.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += '\n';
    text += lines[i].text;
  }
  if (lines.size() > shown) text += fmt::format("\n... and {} more", lines.size() - shown);
  return {ErrorCode::invalid_argument, std::move(text)};
}

}  // namespace engram::tools
