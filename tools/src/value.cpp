#include "value.hpp"

#include <charconv>

#include "engram/model/quantity.hpp"

namespace engram::tools {
namespace {

/// "-3 is less than 0": the first bound that `value` breaks.
template <class T>
Complaint outside(T value, const Limits& limits) {
  const auto wide = static_cast<double>(value);
  if (wide < limits.least) return fmt::format("{} is too small", value);
  if (wide > limits.most) return fmt::format("{} is too big", value);
  return {};
}

/// A quantity with a unit in a string. The unit's own complaint lists the units.
template <class T, class Parse>
Complaint read_quantity(const toml::node& node, Parse parse, T& out) {
  const auto* text = node.as_string();
  if (!text) return describe(node) + " has no unit";
  auto parsed = parse(text->get());
  if (!parsed) return parsed.error().message;
  out = *parsed;
  return {};
}

}  // namespace

std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("the string \"{}\"", text->get());
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{:#}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "a list";
  return "a date or time";
}

Complaint read_integer(const toml::node& node, const Limits& limits, std::uint64_t& out) {
  const auto* number = node.as_integer();
  if (!number) return describe(node) + " is not an integer";
  if (auto wrong = outside(number->get(), limits)) return wrong;
  out = static_cast<std::uint64_t>(number->get());
  return {};
}

Complaint read_value(const toml::node& node, const Limits& limits, double& out) {
  const auto number = node.value<double>();
  if (!node.is_number() || !number) return describe(node) + " is not a number";
  if (!std::isfinite(*number)) return "not a finite number";
  if (auto wrong = outside(*number, limits)) return wrong;
  out = *number;
  return {};
}

Complaint read_value(const toml::node& node, const Limits&, bool& out) {
  const auto* flag = node.as_boolean();
  if (!flag) return describe(node) + " is not a truth value";
  out = flag->get();
  return {};
}

Complaint read_value(const toml::node& node, const Limits&, std::string& out) {
  const auto* text = node.as_string();
  if (!text) return describe(node) + " is not a string";
  if (text->get().empty()) return "the string is empty";
  out = text->get();
  return {};
}

Complaint read_value(const toml::node& node, const Limits& limits, Bytes& out) {
  std::uint64_t count = 0;
  if (node.is_integer()) {
    if (auto wrong = read_integer(node, limits, count)) return wrong;
  } else {
    Bytes size;
    if (auto wrong = read_quantity(node, model::parse_bytes, size)) return wrong;
    if (auto wrong = outside(size.count, limits)) return wrong;
    count = size.count;
  }
  out = Bytes{count};
  return {};
}

Complaint read_value(const toml::node& node, const Limits& limits, Nanos& out) {
  Nanos time{};
  if (auto wrong = read_quantity(node, model::parse_time, time)) return wrong;
  if (outside(time.count(), limits)) return describe(node) + " is out of range";
  out = time;
  return {};
}

Complaint read_value(const toml::node& node, const Limits& limits, BytesPerSecond& out) {
  BytesPerSecond rate;
  if (auto wrong = read_quantity(node, model::parse_bandwidth, rate)) return wrong;
  if (outside(rate.value, limits)) return describe(node) + " is out of range";
  out = rate;
  return {};
}

Complaint read_value(const toml::node& node, const Limits& limits,
                     std::map<std::uint32_t, std::uint32_t>& out) {
  const auto* table = node.as_table();
  if (!table) return describe(node) + " is not a table";
  std::map<std::uint32_t, std::uint32_t> values;
  for (auto&& [name, value] : *table) {
    const auto text = name.str();
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc{} || end != text.data() + text.size() || index > limits.most_index) {
      return fmt::format("\"{}\" is no number from 0 to {}", text, limits.most_index);
    }
    std::uint64_t number = 0;
    if (auto wrong = read_integer(value, limits, number))
      return fmt::format("{}: {}", text, *wrong);
    values[index] = static_cast<std::uint32_t>(number);
  }
  out = std::move(values);
  return {};
}

std::string write_value(double value) { return fmt::format("{:.15g}", value); }
std::string write_value(bool value) { return value ? "true" : "false"; }
std::string write_value(const std::string& value) { return fmt::format("\"{}\"", value); }
std::string write_value(Bytes value) { return write_value(model::to_text(value)); }
std::string write_value(Nanos value) { return write_value(model::to_text(value)); }
std::string write_value(BytesPerSecond value) {
  return value.value == 0 ? "" : write_value(model::to_text(value));
}
std::string write_value(const std::map<std::uint32_t, std::uint32_t>& value) {
  std::string text = "{";
  for (const auto& [index, number] : value) {
    text += fmt::format("{} {} = {}", text.size() > 1 ? "," : "", index, number);
  }
  return text.size() > 1 ? text + " }" : "{}";
}

}  // namespace engram::tools
