// Reading one TOML value into one C++ value, and writing a default back. A reader returns what is
// wrong with the value ("-3 is too small"), without the key or what would be accepted.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "engram/core/index.hpp"
#include "engram/core/units.hpp"
#include "engram/model/nearest.hpp"
#include "names.hpp"

namespace engram::tools {

using Complaint = std::optional<std::string>;

struct Limits {
  double least = 0, most = 0;  ///< of numbers; of each element in a list or table
  bool zero_is_planned = false;
  std::uint32_t most_index = 15;  ///< of the names in a table of numbers
  bool list = false;  ///< the list form is documented; one number stands for a list of one
};

/// "a string \"many\"", "the integer 3", "a table": for messages.
[[nodiscard]] std::string describe(const toml::node& node);

[[nodiscard]] Complaint read_integer(const toml::node& node, const Limits& limits,
                                     std::uint64_t& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, double& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, bool& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, std::string& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, Bytes& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, Nanos& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits,
                                   BytesPerSecond& out);
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits,
                                   std::map<std::uint32_t, std::uint32_t>& out);

template <class E>
requires std::is_enum_v<E>
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits&, E& out) {
  const auto* text = node.as_string();
  if (!text) return describe(node) + " is not a string";
  std::vector<std::string> names;
  for (const auto& [value, name] : kNames<E>) {
    if (text->get() == name) {
      out = value;
      return {};
    }
    names.emplace_back(name);
  }
  const auto close = model::nearest_name(text->get(), names);
  return fmt::format("\"{}\" is not known{}", text->get(),
                     close ? fmt::format(", did you mean \"{}\"?", *close) : "");
}

template <class I>
requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) [[nodiscard]] Complaint
    read_value(const toml::node& node, const Limits& limits, I& out) {
  std::uint64_t wide = 0;
  if (auto wrong = read_integer(node, limits, wide)) return wrong;
  out = static_cast<I>(wide);
  return {};
}

template <class Tag>
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits, Index<Tag>& out) {
  return read_value(node, limits, out.value);
}

template <class T>
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits,
                                   std::optional<T>& out) {
  T value{};
  if (auto wrong = read_value(node, limits, value)) return wrong;
  if constexpr (std::is_integral_v<T>) {
    if (limits.zero_is_planned && value == 0) {
      out.reset();
      return {};
    }
  }
  out = value;
  return {};
}

template <class T>
[[nodiscard]] Complaint read_value(const toml::node& node, const Limits& limits,
                                   std::vector<T>& out) {
  std::vector<T> values;
  if (const auto* array = node.as_array()) {
    for (const auto& element : *array) {
      T value{};
      if (auto wrong = read_value(element, limits, value)) {
        return fmt::format("element {}: {}", values.size(), *wrong);
      }
      values.push_back(value);
    }
  } else {
    T value{};
    if (auto wrong = read_value(node, limits, value)) return wrong;
    values.push_back(value);
  }
  out = std::move(values);
  return {};
}

// What a default looks like in a file; "" where the key is unset.
[[nodiscard]] std::string write_value(double value);
[[nodiscard]] std::string write_value(bool value);
[[nodiscard]] std::string write_value(const std::string& value);
[[nodiscard]] std::string write_value(Bytes value);
[[nodiscard]] std::string write_value(Nanos value);
[[nodiscard]] std::string write_value(BytesPerSecond value);
[[nodiscard]] std::string write_value(const std::map<std::uint32_t, std::uint32_t>& value);

template <class E>
requires std::is_enum_v<E>
[[nodiscard]] std::string write_value(E value) { return fmt::format("\"{}\"", lookup_name(value)); }
template <class I>
requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) [[nodiscard]] std::string
    write_value(I value) {
  return std::to_string(value);
}
template <class Tag>
[[nodiscard]] std::string write_value(Index<Tag> value) {
  return std::to_string(value.value);
}
template <class T>
[[nodiscard]] std::string write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : "";
}
template <class T>
[[nodiscard]] std::string write_value(const std::vector<T>& values) {
  if (values.size() == 1) return write_value(values[0]);
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ", ";
    text += write_value(value);
  }
  return text + "]";
}

}  // namespace engram::tools
