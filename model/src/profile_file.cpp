#include "engram/model/profile_file.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>

#include "engram/model/nearest.hpp"
#include "engram/model/quantity.hpp"
#include "profile_fields.hpp"
#include "toml_reader.hpp"

namespace engram::model {
namespace {

namespace fs = std::filesystem;

template <class T, class Parse>
Result<void> set_from_text(T& member, const toml::node& node, Parse parse,
                           std::string_view example) {
  const auto* text = node.as_string();
  if (!text) {
    return fail(ErrorCode::invalid_argument, "expected a text with a unit such as \"", example,
                "\"");
  }
  return parse(text->get()).map([&](T value) { member = value; });
}

Result<void> set(Nanos& member, const toml::node& node) {
  return set_from_text(member, node, parse_time, "1.5 us");
}
Result<void> set(Bytes& member, const toml::node& node) {
  return set_from_text(member, node, parse_bytes, "2 MiB");
}
Result<void> set(BytesPerSecond& member, const toml::node& node) {
  return set_from_text(member, node, parse_bandwidth, "50 GB/s");
}
Result<void> set(PerSecond& member, const toml::node& node) {
  return set_from_text(member, node, parse_rate, "45 M/s");
}
Result<void> set(std::uint32_t& member, const toml::node& node) {
  const auto* number = node.as_integer();
  if (!number) return fail(ErrorCode::invalid_argument, "expected a whole number");
  if (number->get() < 0 || number->get() > std::int64_t{0xFFFFFFFF}) {
    return fail(ErrorCode::invalid_argument, number->get(), " is not between 0 and 4294967295");
  }
  member = static_cast<std::uint32_t>(number->get());
  return {};
}
Result<void> set(bool& member, const toml::node& node) {
  const auto* flag = node.as_boolean();
  if (!flag) return fail(ErrorCode::invalid_argument, "expected true or false");
  member = flag->get();
  return {};
}

std::string text_of(std::uint32_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
template <class Quantity>
std::string text_of(const Quantity& value) {
  return to_text(value);
}

/// A value, alone or as { value, source }.
struct Stated {
  const toml::node* value = nullptr;
  std::optional<std::string> source;
};

Result<Stated> stated(const toml::node& node) {
  const auto* table = node.as_table();
  if (!table) return Stated{&node, std::nullopt};
  Stated result;
  for (const auto& [key, inner] : *table) {
    if (key.str() == "value") {
      result.value = &inner;
    } else if (key.str() == "source" && inner.is_string()) {
      result.source = inner.as_string()->get();
    } else {
      return fail(ErrorCode::invalid_argument, "\"", key.str(),
                  "\" is not accepted here, only { value, source = \"text\" }");
    }
  }
  if (!result.value) return fail(ErrorCode::invalid_argument, "states no value");
  return result;
}

enum class Source { required, optional };

/// Reads tables shaped like Profile into it.
class Reader {
 public:
  Reader(Profile& profile, Source source) : profile_(profile), source_(source) {}

  Result<void> read(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const std::string key = prefix + std::string(name.str());
      const auto located = [&](Error error) {
        return within(error, place(name.source()), ": ", key);
      };
      if (is_part(key)) {
        const auto* part = node.as_table();
        if (!part)
          return located({ErrorCode::invalid_argument, "is a part of a profile: expected a table"});
        if (auto ok = read(*part, key + "."); !ok) return ok;
        continue;
      }
      if (auto ok = read_value(key, node); !ok) return located(ok.error());
    }
    return {};
  }

  [[nodiscard]] const std::set<std::string>& seen() const { return seen_; }

 private:
  static bool is_part(const std::string& key) {
    return std::ranges::any_of(profile_keys(),
                               [&](const std::string& k) { return k.starts_with(key + "."); });
  }

  Result<void> read_value(const std::string& key, const toml::node& node) {
    Result<void> result = unknown(key);
    for_each_field(profile_, [&](std::string_view field, auto& member) {
      if (field != key) return;
      auto value = stated(node);
      if (!value) {
        result = tl::unexpected(value.error());
      } else if (source_ == Source::required && value->source.value_or("").empty()) {
        result = fail(ErrorCode::invalid_argument,
                      "has no source: write { value = …, source = \"where it comes from\" }");
      } else {
        result = set(member, *value->value);
        if (result && is_zero(member) && must_not_be_zero(key)) {
          result = fail(ErrorCode::invalid_argument, "is 0; accepted: at least 1");
        }
        profile_.sources[key] = value->source.value_or(place(node.source()));
        seen_.insert(key);
      }
    });
    return result;
  }

  static bool is_zero(std::uint32_t value) { return value == 0; }
  template <class Other>
  static bool is_zero(const Other&) {
    return false;
  }
  static bool must_not_be_zero(std::string_view key) {
    constexpr std::string_view kKeys[] = {"nic.outstanding_reads",
                                          "nic.queue_depth",
                                          "nic.max_queue_depth",
                                          "nic.max_qps",
                                          "gpu.sms",
                                          "gpu.warps_per_block",
                                          "issue.warp_parallel",
                                          "nvlink.load_payload",
                                          "nvlink.copy_payload",
                                          "nvlink.copy_engines",
                                          "nvlink.domain_gpus",
                                          "network.mtu",
                                          "congestion.mark_one_in",
                                          "congestion.gain_one_in"};
    return std::ranges::find(kKeys, key) != std::end(kKeys);
  }

  /// The nearest key, the same word in another part, or what the part holds.
  static std::string suggestion(const std::string& key) {
    const auto dot = key.rfind('.');
    const std::string part = dot == std::string::npos ? "" : key.substr(0, dot + 1);
    const std::string word = "." + key.substr(part.size());
    std::set<std::string> names;  // in this part, or the parts
    std::vector<std::string> same;
    for (const std::string& known : profile_keys()) {
      if (known.ends_with(word)) same.push_back(known);
      if (!known.starts_with(part)) continue;
      const std::string rest = known.substr(part.size());
      names.insert(rest.substr(0, rest.find('.')));
    }
    std::optional<std::string> near = nearest_name(key, profile_keys());
    if (!near && !same.empty()) near = same.front();
    if (near) return fmt::format("did you mean \"{}\"?", *near);
    if (names.empty()) return suggestion(key.substr(0, dot));  // of a part that is not known
    const std::vector<std::string> listed(names.begin(), names.end());
    if (const auto close = nearest_name(key.substr(part.size()), listed)) {
      return fmt::format("did you mean \"{}{}\"?", part, *close);
    }
    return fmt::format("accepted{}: {}", part.empty() ? "" : " in " + part.substr(0, dot),
                       fmt::join(listed, ", "));
  }

  static Result<void> unknown(const std::string& key) {
    return fail(ErrorCode::invalid_argument, "no such key in a profile; ", suggestion(key));
  }

  Profile& profile_;
  Source source_;
  std::set<std::string> seen_;
};

std::optional<fs::path> find(std::string_view name, std::span<const fs::path> dirs) {
  if (name.ends_with(".toml")) {
    return fs::exists(name) ? std::optional<fs::path>(name) : std::nullopt;
  }
  for (const fs::path& dir : dirs) {
    if (fs::path file = dir / fmt::format("{}.toml", name); fs::exists(file)) return file;
  }
  return std::nullopt;
}

/// Takes the text at `key` out of `table`.
Result<std::optional<std::string>> take_text(toml::table& table, std::string_view key) {
  const auto* node = table.get(key);
  if (!node) return std::nullopt;
  if (!node->is_string()) {
    return fail(ErrorCode::invalid_argument, place(node->source()), ": ", key, ": expected a text");
  }
  std::string text = node->as_string()->get();
  table.erase(key);
  return text;
}

Result<Profile> load(std::string_view name, std::span<const fs::path> dirs,
                     std::vector<std::string> children) {
  const auto file = find(name, dirs);
  if (!file) {
    return fail(ErrorCode::not_found, "no profile \"", name,
                "\"; known: ", fmt::format("{}", fmt::join(profile_names(dirs), ", ")),
                ", or the path of a file that ends in .toml");
  }
  const std::string path = file->string();
  if (std::ranges::find(children, path) != children.end()) {
    return fail(ErrorCode::invalid_argument, path, ": extends: leads back to itself");
  }
  children.push_back(path);

  auto read = read_toml(path);
  if (!read) return tl::unexpected(read.error());
  toml::table& table = *read;
  const auto source = take_text(table, "source");
  const auto parent = take_text(table, "extends");
  if (!source) return tl::unexpected(source.error());
  if (!parent) return tl::unexpected(parent.error());
  if (!*source)
    return fail(ErrorCode::invalid_argument, path,
                ":1: source: missing; say in one line which machine this is");

  Profile profile;
  if (*parent) {
    auto base = load(**parent, dirs, children);
    if (!base) return within(base.error(), path, ": extends");
    profile = *std::move(base);
  }
  profile.name = file->stem().string();
  profile.source = **source;
  Reader reader(profile, Source::required);
  if (auto ok = reader.read(table, ""); !ok) return tl::unexpected(ok.error());
  for (const std::string& key : profile_keys()) {
    if (!profile.sources.contains(key)) {
      return fail(ErrorCode::invalid_argument, path, ":1: ", key,
                  ": missing; state it, or extend a profile that does");
    }
  }
  return profile;
}

}  // namespace

std::vector<fs::path> default_profile_dirs() {
  return {ENGRAM_SOURCE_PROFILES, ENGRAM_INSTALLED_PROFILES};
}

Result<Profile> load_profile(std::string_view name_or_path, std::span<const fs::path> dirs) {
  return load(name_or_path, dirs, {});
}

namespace {

/// A scenario beside which profiles are looked for is none, nor are its fellows: a profile says
/// where its numbers come from.
bool is_profile(const fs::path& path) {
  const auto table = read_toml(path.string());
  return table && table->get("source") != nullptr && table->get("source")->is_string();
}

}  // namespace

std::vector<std::string> profile_names(std::span<const fs::path> dirs) {
  std::set<std::string> names;
  for (const fs::path& dir : dirs) {
    std::error_code none;  // a folder that is not there holds no profiles
    for (const auto& entry : fs::directory_iterator(dir, none)) {
      if (entry.path().extension() == ".toml" && is_profile(entry.path())) {
        names.insert(entry.path().stem().string());
      }
    }
  }
  return {names.begin(), names.end()};
}

Result<void> apply_overrides(Profile& profile, const toml::table& table) {
  Profile changed = profile;
  Reader reader(changed, Source::optional);
  if (auto ok = reader.read(table, ""); !ok) return ok;
  profile = std::move(changed);
  return {};
}

Result<void> apply_override(Profile& profile, std::string_view key, std::string_view text) {
  toml::table table;
  const auto dot = key.rfind('.');
  toml::table* part = &table;
  std::string_view rest = key;
  while (dot != std::string_view::npos && rest.find('.') != std::string_view::npos) {
    const auto name = rest.substr(0, rest.find('.'));
    part = part->insert_or_assign(name, toml::table{}).first->second.as_table();
    rest.remove_prefix(name.size() + 1);
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text == "true" || text == "false") {
    part->insert_or_assign(rest, text == "true");
  } else if (error == std::errc{} && end == text.data() + text.size()) {
    part->insert_or_assign(rest, number);
  } else {
    part->insert_or_assign(rest, text);
  }
  return apply_overrides(profile, table);
}

std::vector<std::string> profile_keys() {
  std::vector<std::string> keys;
  const Profile none;
  for_each_field(none, [&](std::string_view key, const auto&) { keys.emplace_back(key); });
  return keys;
}

std::vector<std::string> unlimited_rates(const Profile& profile) {
  std::vector<std::string> keys;
  for_each_field(profile, [&](std::string_view key, const auto& member) {
    if constexpr (requires { member.value == 0.0; }) {
      if (member.value == 0.0) keys.emplace_back(key);
    }
  });
  return keys;
}

std::vector<ProfileEntry> profile_entries(const Profile& profile) {
  std::vector<ProfileEntry> entries;
  for_each_field(profile, [&](std::string_view key, const auto& member) {
    const auto source = profile.sources.find(std::string(key));
    entries.push_back(
        {std::string(key), text_of(member), source == profile.sources.end() ? "" : source->second});
  });
  return entries;
}

}  // namespace engram::model
