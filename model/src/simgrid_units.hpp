// Numbers as SimGrid's platform files write them: with its units, or as lists.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "xml_reader.hpp"

namespace engram::model::simgrid {

using Element = tinyxml2::XMLElement;

struct Unit {
  std::string_view name;
  double factor;
};
inline constexpr Unit kBandwidths[] = {
    {"Bps", 1},          {"kBps", 1e3},     {"KBps", 1e3},     {"MBps", 1e6},
    {"GBps", 1e9},       {"TBps", 1e12},    {"KiBps", 1024},   {"MiBps", 0x1p20},
    {"GiBps", 0x1p30},   {"TiBps", 0x1p40}, {"bps", 0.125},    {"kbps", 1e3 / 8},
    {"Kbps", 1e3 / 8},   {"Mbps", 1e6 / 8}, {"Gbps", 1e9 / 8}, {"Tbps", 1e12 / 8},
    {"Kibps", 1024 / 8}, {"Mibps", 0x1p17}, {"Gibps", 0x1p27}, {"", 1}};
inline constexpr Unit kTimes[] = {{"s", 1e9},   {"ms", 1e6}, {"us", 1e3},   {"ns", 1},
                                  {"ps", 1e-3}, {"m", 60e9}, {"h", 3600e9}, {"", 1e9}};

[[nodiscard]] inline Result<double> quantity(const XmlFile& file, const Element& at,
                                             const char* name, std::span<const Unit> units) {
  const auto text = file.needed(at, name);
  if (!text) return tl::unexpected(text.error());
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const std::string_view unit(end, text->data() + text->size());
  const auto found = std::ranges::find(units, unit, &Unit::name);
  if (error != std::errc{} || found == units.end() || !(value >= 0)) {
    return file.fail(at, name, "=\"", *text, "\" is not understood");
  }
  return value * found->factor;
}

[[nodiscard]] inline Result<std::vector<std::uint32_t>> numbers(const XmlFile& file,
                                                                const Element& at,
                                                                std::string_view text) {
  std::vector<std::uint32_t> list;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size()) {
      return file.fail(at, "\"", part, "\" is not a whole number");
    }
    list.push_back(value);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return list;
}

}  // namespace engram::model::simgrid
