#include "toml_reader.hpp"

#include <algorithm>
#include <filesystem>

namespace engram::model {

Result<toml::table> read_toml(const std::string& path) {
  if (!std::filesystem::exists(path)) {
    return fail(ErrorCode::not_found, path, ": no such file");
  }
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::invalid_argument, place(error.source()), ": ", error.description());
  }
}

const toml::node* TableReader::find(std::string_view key, bool required) {
  known_.emplace_back(key);
  const auto* node = table_.get(key);
  if (!node && required) refuse(key, "missing");
  return node;
}

void TableReader::refuse(std::string_view key, const std::string& why) {
  if (error_) return;
  const auto found = table_.find(key);
  const auto& where = found == table_.end() ? table_.source() : found->first.source();
  error_ = Error{ErrorCode::invalid_argument,
                 fmt::format("{}: {}.{}: {}", place(where), name_, key, why)};
}

std::string TableReader::text(std::string_view key, std::optional<std::string> otherwise) {
  const auto* node = find(key, !otherwise);
  if (!node) return otherwise.value_or("");
  if (const auto* value = node->as_string()) return value->get();
  refuse(key, "expected a text");
  return "";
}

std::uint32_t TableReader::count(std::string_view key, std::optional<std::uint32_t> otherwise) {
  const auto* node = find(key, !otherwise);
  if (!node) return otherwise.value_or(0);
  const auto* value = node->as_integer();
  if (value && value->get() >= 0 && value->get() <= std::int64_t{0xFFFFFFFF}) {
    return static_cast<std::uint32_t>(value->get());
  }
  refuse(key, "expected a whole number that is not negative");
  return 0;
}

double TableReader::number(std::string_view key, std::optional<double> otherwise) {
  const auto* node = find(key, !otherwise);
  if (!node) return otherwise.value_or(0);
  if (const auto value = node->value<double>()) return *value;
  refuse(key, "expected a number");
  return 0;
}

Nanos TableReader::time(std::string_view key, std::optional<Nanos> otherwise) {
  const auto* node = find(key, !otherwise);
  if (!node) return otherwise.value_or(Nanos{});
  if (!node->is_string()) refuse(key, "expected a text with a unit such as \"1.5 us\"");
  const auto value = parse_time(node->value_or(std::string_view{}));
  if (!value) refuse(key, value.error().message);
  return value.value_or(Nanos{});
}

BytesPerSecond TableReader::bandwidth(std::string_view key,
                                      std::optional<BytesPerSecond> otherwise) {
  const auto* node = find(key, !otherwise);
  if (!node) return otherwise.value_or(BytesPerSecond{});
  if (!node->is_string()) refuse(key, "expected a text with a unit such as \"50 GB/s\"");
  const auto value = parse_bandwidth(node->value_or(std::string_view{}));
  if (!value) refuse(key, value.error().message);
  return value.value_or(BytesPerSecond{});
}

Result<void> TableReader::done() {
  for (const auto& [key, node] : table_) {
    if (std::ranges::find(known_, key.str()) != known_.end()) continue;
    const auto near = nearest_name(key.str(), known_);
    refuse(key.str(), "no such key" + (near ? "; did you mean \"" + *near + "\"?" : std::string()));
  }
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace engram::model
