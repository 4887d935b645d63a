// From TOML text and --set arguments to a Scenario, by the table of keys.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "diagnostics.hpp"
#include "engram/model/nearest.hpp"
#include "engram/tools/scenario.hpp"
#include "scenario_checks.hpp"
#include "scenario_keys.hpp"

namespace engram::tools {
namespace {

std::string join(const std::string& prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
}

class Loader {
 public:
  Loader(Scenario& scenario, Diagnostics& found) : scenario_(scenario), found_(found) {
    for (const auto& key : scenario_keys()) {
      known_.push_back(key.path);
      by_path_[key.path] = &key;
      for (auto dot = key.path.rfind('.'); dot != std::string::npos;
           dot = dot ? key.path.rfind('.', dot - 1) : std::string::npos) {
        sections_.insert(key.path.substr(0, dot));
      }
    }
  }

  void load(toml::table&& root) {
    walk("", root);
    if (auto* node = root.get("sweep")) sweep(*node);
  }

 private:
  void walk(const std::string& prefix, toml::table& table) {
    for (auto&& [name, node] : table) {
      const auto path = join(prefix, name.str());
      if (const auto key = by_path_.find(path); key != by_path_.end()) {
        read(*key->second, path, scenario_, node);
      } else if (path == kOverrideSection) {
        overrides(node);
      } else if (path == "background") {
        entries(path, node, background_keys(), {"rate"}, scenario_.background);
      } else if (path == "fault") {
        entries(path, node, fault_keys(), {"kind", "target"}, scenario_.faults);
      } else if (path == "sweep") {
        continue;  // after everything else, so that its values are tried on a whole scenario
      } else if (sections_.contains(path)) {
        if (auto* section = node.as_table()) {
          walk(path, *section);
        } else {
          found_.add(node.source(), path,
                     describe(node) + " is not a section; accepted: " + keys_in(path));
        }
      } else {
        found_.add(name.source(), path, "is not known; " + suggestion(path));
      }
    }
  }

  template <class Target>
  void read(const Key<Target>& key, const std::string& path, Target& target,
            const toml::node& node) {
    scenario_.places[path] = place_of(node.source());
    if (auto wrong = key.read(target, node)) complain(node, path, *wrong, key.accepted);
  }

  /// A unit's complaint says what is accepted by itself.
  void complain(const toml::node& node, const std::string& path, const std::string& wrong,
                const std::string& accepted) {
    const bool complete = wrong.find("accepted:") != std::string::npos;
    found_.add(node.source(), path, complete ? wrong : wrong + "; accepted: " + accepted);
  }

  void overrides(toml::node& node) {
    if (auto* table = node.as_table()) {
      scenario_.places[std::string(kOverrideSection)] = place_of(node.source());
      scenario_.cluster.overrides = std::make_shared<const toml::table>(std::move(*table));
    } else {
      found_.add(node.source(), kOverrideSection,
                 describe(node) + " is not a section; accepted: the keys of a profile file");
    }
  }

  template <class Entry>
  void entries(const std::string& path, toml::node& node, const std::vector<Key<Entry>>& keys,
               const std::set<std::string>& required, std::vector<Entry>& out) {
    auto* array = node.as_array();
    if (!array) {
      found_.add(node.source(), path,
                 describe(node) + " is not a list of tables; accepted: [[" + path + "]]");
      return;
    }
    std::vector<std::string> names;
    for (const auto& key : keys) names.push_back(key.path);
    for (auto& element : *array) {
      const auto here = fmt::format("{}[{}]", path, out.size());
      auto& entry = out.emplace_back();
      entry.key = here;
      scenario_.places[here] = place_of(element.source());
      auto* table = element.as_table();
      if (!table) {
        found_.add(element.source(), here, describe(element) + " is not a table");
        continue;
      }
      for (auto&& [name, value] : *table) {
        const auto key = std::find_if(keys.begin(), keys.end(),
                                      [&](const auto& k) { return k.path == name.str(); });
        if (key != keys.end()) {
          read(*key, join(here, name.str()), entry, value);
        } else {
          const auto close = model::nearest_name(name.str(), names);
          found_.add(name.source(), join(here, name.str()),
                     close ? fmt::format("is not known; did you mean '{}'?", *close)
                           : fmt::format("is not known; accepted: {}", fmt::join(names, ", ")));
        }
      }
      for (const auto& name : required) {
        if (!table->contains(name)) found_.add(element.source(), here, "'" + name + "' is missing");
      }
    }
  }

  void sweep(toml::node& node) {
    if (auto* table = node.as_table()) {
      sweep_axes("", *table);
    } else {
      found_.add(node.source(), "sweep",
                 describe(node) + " is not a section; accepted: \"cluster.nodes\" = [2, 4, 8]");
    }
  }

  void sweep_axes(const std::string& prefix, toml::table& table) {
    for (auto&& [name, node] : table) {
      const auto path = join(prefix, name.str());
      if (auto* deeper = node.as_table()) {
        sweep_axes(path, *deeper);
        continue;
      }
      const auto label = "sweep.\"" + path + "\"";
      const auto* values = node.as_array();
      const auto key = by_path_.find(path);
      const bool of_profile = path.starts_with(std::string(kOverrideSection) + ".");
      if (key == by_path_.end() && !of_profile) {
        found_.add(name.source(), label, "is not known; " + suggestion(path));
      } else if (!values || values->empty()) {
        found_.add(node.source(), label,
                   describe(node) + " is not a list of values; accepted: [2, 4, 8]");
      } else {
        scenario_.places[label] = place_of(node.source());
        SweepAxis axis{path, {}};
        for (const auto& value : *values) {
          if (!of_profile) try_value(*key->second, label, value);
          std::ostringstream text;
          value.visit([&](const auto& v) {
            text << toml::toml_formatter{v, toml::toml_formatter::default_flags &
                                                ~toml::format_flags::allow_literal_strings};
          });
          if (std::ranges::find(axis.values, text.str()) != axis.values.end()) {
            found_.add(value.source(), label, text.str() + " is listed twice; accepted: once");
          }
          axis.values.push_back(text.str());
        }
        scenario_.sweep.push_back(std::move(axis));
      }
    }
  }

  void try_value(const Key<Scenario>& key, const std::string& label, const toml::node& value) {
    Scenario scratch = scenario_;
    if (auto wrong = key.read(scratch, value)) complain(value, label, *wrong, key.accepted);
  }

  /// "did you mean 'fetch.tokens'?", or what the section holds.
  std::string suggestion(const std::string& path) const {
    const auto dot = path.rfind('.');
    const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    const std::string last = dot == std::string::npos ? path : path.substr(dot + 1);
    std::vector<std::string> all = known_;
    all.insert(all.end(), sections_.begin(), sections_.end());
    for (const auto* extra : {"background", "fault", "sweep"}) all.emplace_back(extra);
    if (auto close = nearest_in(section, last)) return "did you mean '" + *close + "'?";
    // A key in the wrong section: the same last word elsewhere.
    for (const auto& known : known_) {
      if (known.ends_with("." + last)) return "did you mean '" + known + "'?";
    }
    if (auto close = model::nearest_name(path, all)) return "did you mean '" + *close + "'?";
    return "accepted: " + keys_in(sections_.contains(section) ? section : "");
  }

  std::optional<std::string> nearest_in(const std::string& section, const std::string& last) const {
    const auto names = names_in(section);
    const auto close = model::nearest_name(last, names);
    if (!close) return {};
    return join(section, *close);
  }

  std::vector<std::string> names_in(const std::string& section) const {
    std::set<std::string> names;
    const std::string prefix = section.empty() ? "" : section + ".";
    for (const auto& known : known_) {
      if (known.starts_with(prefix)) {
        const auto rest = known.substr(prefix.size());
        names.insert(rest.substr(0, rest.find('.')));
      }
    }
    if (section.empty()) names.insert({"background", "fault", "sweep"});
    if (section == "cluster") names.insert("override");
    return {names.begin(), names.end()};
  }

  std::string keys_in(const std::string& section) const {
    const auto names = names_in(section);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  Scenario& scenario_;
  Diagnostics& found_;
  std::vector<std::string> known_;
  std::map<std::string, const Key<Scenario>*> by_path_;
  std::set<std::string> sections_;
};

/// `key=value` as a TOML table; a bare word is a string, so that run.backend=sim works.
Result<toml::table> parse_set(const std::string& argument) {
  const std::string source = "--set " + argument;
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorCode::invalid_argument, source,
                ": accepted: key=value, such as fetch.tokens=64");
  }
  const std::string key = argument.substr(0, equals), value = argument.substr(equals + 1);
  const bool bare = value.find_first_of("\"\\\n[]{}") == std::string::npos;
  for (const auto& written : {value, fmt::format("\"{}\"", value)}) {
    try {
      return toml::parse(key + " = " + written, source);
    } catch (const toml::parse_error&) {
      if (!bare) break;
    }
  }
  return fail(ErrorCode::invalid_argument, source, ": ", value,
              " is no TOML value; accepted: a number, a \"string\", true, false or a [list]");
}

/// Puts `over` into `table`, section by section. A table in braces replaces what was there.
Result<void> merge(toml::table& table, toml::table&& over, const std::string& argument,
                   const std::string& prefix = "") {
  for (auto&& [name, node] : over) {
    auto* section = node.as_table();
    if (section && !section->is_inline() && table.contains(name)) {
      const auto path = join(prefix, name.str());
      auto* below = table.get(name)->as_table();
      if (!below) {
        return fail(ErrorCode::invalid_argument, "--set ", argument, ": key '", path,
                    "' is not a section; set the whole of it");
      }
      if (auto merged = merge(*below, std::move(*section), argument, path); !merged) return merged;
    } else {
      node.visit([&, &key = name](auto& value) { table.insert_or_assign(key, std::move(value)); });
    }
  }
  return {};
}

Result<void> apply_set(toml::table& root, const std::string& argument) {
  auto over = parse_set(argument);
  if (!over) return tl::unexpected(over.error());
  return merge(root, std::move(*over), argument);
}

/// Position, the parser's words and the line itself, since the parser does not name the key.
Error parse_failure(const toml::parse_error& error, const std::string& path,
                    std::string_view text) {
  const auto [number, column] = error.source().begin;
  for (std::uint32_t line = 1; line < number && text.find('\n') != text.npos; ++line) {
    text.remove_prefix(text.find('\n') + 1);
  }
  text = text.substr(0, text.find('\n'));
  while (text.starts_with(' ')) text.remove_prefix(1);
  return {ErrorCode::invalid_argument, fmt::format("{}:{}:{}: {}; the line is: {}", path, number,
                                                   column, error.description(), text)};
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, const std::string& path,
                                const std::vector<std::string>& set_overrides) {
  Scenario scenario;
  scenario.path = path;
  scenario.text = std::string(text);
  scenario.set_overrides = set_overrides;
  Diagnostics found;
  try {
    toml::table root = toml::parse(text, path);
    for (const auto& argument : set_overrides) {
      if (auto applied = apply_set(root, argument); !applied) found.add(applied.error().message);
    }
    Loader(scenario, found).load(std::move(root));
  } catch (const toml::parse_error& error) {
    return tl::unexpected(parse_failure(error, path, text));
  }
  if (found.empty()) check_scenario(scenario, found);
  if (!found.empty()) return tl::unexpected(found.error());
  return scenario;
}

Result<Scenario> load_scenario(const std::string& path,
                               const std::vector<std::string>& set_overrides) {
  if (std::filesystem::is_directory(path)) {
    return fail(ErrorCode::invalid_argument, path,
                ": is a folder; accepted: the path of a scenario");
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad() || !in.is_open()) {
    return fail(ErrorCode::not_found, path, ": cannot be read; accepted: the path of a scenario");
  }
  return parse_scenario(text, path, set_overrides);
}

}  // namespace engram::tools
