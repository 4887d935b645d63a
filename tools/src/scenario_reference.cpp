// docs/scenario.md, from the same table that the parser reads by.
#include <fmt/format.h>

#include "scenario_keys.hpp"

namespace engram::tools {
namespace {

/// A bar would end the table's cell.
std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

template <class Target>
void add_rows(std::string& text, const std::vector<Key<Target>>& keys, std::string_view section) {
  text += "| key | accepted | default | meaning |\n|---|---|---|---|\n";
  for (const auto& key : keys) {
    const auto dot = key.path.rfind('.');
    const auto holder = dot == std::string::npos ? "" : key.path.substr(0, dot);
    if (holder != section) continue;
    const auto name = dot == std::string::npos ? key.path : key.path.substr(dot + 1);
    text += fmt::format("| `{}` | {} | {} | {} |\n", name, escape(key.accepted),
                        escape(key.fallback), escape(key.meaning));
  }
}

}  // namespace

std::string scenario_reference() {
  std::string text =
      "# Scenario files\n\n"
      "TOML. Every key may be left out. `--set section.key=value` puts a value over the file's.\n"
      "An unknown key is an error that names the nearest known one.\n"
      "This page is the output of `engram scenario --keys`; a test compares them.\n";
  for (const auto& section : scenario_sections()) {
    text += fmt::format("\n## [{}]\n{}\n\n", section.name, section.meaning);
    add_rows(text, scenario_keys(), section.name);
  }
  text +=
      "\n## [cluster.override]\nAny key of a profile file (model/profiles), with its "
      "unit; replaces the profile's number.\nA rate of 0 is no limit, a time of 0 costs nothing.\n";
  text += "\n## [[background]]\nOther traffic, an entry each.\n\n";
  add_rows(text, background_keys(), "");
  text +=
      "\n## [[fault]]\nWhat goes wrong, an entry each. The run ends with a named error, or "
      "survives.\n\n";
  add_rows(text, fault_keys(), "");
  text +=
      "\n## [sweep]\nFor `engram sweep`: a key in quotes and its values. Several keys make "
      "every combination.\n\n```toml\n[sweep]\n\"cluster.nodes\" = [2, 4, 8]\n```\n";
  return text;
}

}  // namespace engram::tools
