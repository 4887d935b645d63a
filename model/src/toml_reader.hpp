// One TOML table read key by key: every error says FILE:LINE and key, and no key goes unread.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/model/nearest.hpp"
#include "engram/model/quantity.hpp"

namespace engram::model {

/// "FILE:LINE", for as much of it as toml++ was told.
[[nodiscard]] inline std::string place(const toml::source_region& where) {
  if (where.path) return fmt::format("{}:{}", *where.path, where.begin.line);
  return where.begin.line > 0 ? fmt::format("line {}", where.begin.line) : "override";
}

/// Parses a file. Errors: not_found, or invalid_argument with FILE:LINE.
[[nodiscard]] Result<toml::table> read_toml(const std::string& path);

/// Keeps the first error; later reads then give default values. `done()` tells it, or a key that
/// was never asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name) : table_(table), name_(std::move(name)) {}

  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }
  [[nodiscard]] std::string text(std::string_view key, std::optional<std::string> otherwise = {});
  [[nodiscard]] std::uint32_t count(std::string_view key,
                                    std::optional<std::uint32_t> otherwise = {});
  [[nodiscard]] double number(std::string_view key, std::optional<double> otherwise = {});
  [[nodiscard]] Nanos time(std::string_view key, std::optional<Nanos> otherwise = {});
  [[nodiscard]] BytesPerSecond bandwidth(std::string_view key,
                                         std::optional<BytesPerSecond> otherwise = {});
  /// Marks a key that the caller reads itself.
  void expect(std::string_view key) { known_.emplace_back(key); }
  /// Adds an error at `key`, if it is the first.
  void refuse(std::string_view key, const std::string& why);
  [[nodiscard]] Result<void> done();

 private:
  [[nodiscard]] const toml::node* find(std::string_view key, bool required);

  const toml::table& table_;
  std::string name_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace engram::model
