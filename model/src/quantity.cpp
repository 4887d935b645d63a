#include "engram/model/quantity.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace engram::model {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// The largest first: to_text takes the first that leaves a number of at least 1.
constexpr Unit kSizes[] = {{"TiB", 0x1p40}, {"TB", 1e12},    {"GiB", 0x1p30},
                           {"GB", 1e9},     {"MiB", 0x1p20}, {"MB", 1e6},
                           {"KiB", 1024},   {"kB", 1e3},     {"B", 1}};
constexpr Unit kTimes[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
constexpr Unit kBandwidths[] = {
    {"TiB/s", 0x1p40}, {"TB/s", 1e12},    {"GiB/s", 0x1p30}, {"GB/s", 1e9},   {"MiB/s", 0x1p20},
    {"MB/s", 1e6},     {"KiB/s", 1024},   {"kB/s", 1e3},     {"B/s", 1},      {"Tb/s", 1e12 / 8},
    {"Gb/s", 1e9 / 8}, {"Mb/s", 1e6 / 8}, {"kb/s", 1e3 / 8}, {"b/s", 1.0 / 8}};
constexpr Unit kRates[] = {{"G/s", 1e9}, {"M/s", 1e6}, {"k/s", 1e3}, {"/s", 1}};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string names(std::span<const Unit> units) {
  std::string list;
  for (const Unit& unit : units) {
    if (!list.empty()) list += ", ";
    list += unit.name;
  }
  return list;
}

/// The number times its unit's factor.
Result<double> parse(std::string_view text, std::string_view what, std::span<const Unit> units) {
  const std::string_view all = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) {
    return fail(ErrorCode::invalid_argument, "\"", text, "\" is no ", what,
                ": it needs a number that is not negative and a unit (", names(units), ")");
  }
  const auto unit_name = trimmed({end, static_cast<std::size_t>(all.data() + all.size() - end)});
  const auto unit = std::ranges::find(units, unit_name, &Unit::name);
  if (unit == units.end()) {
    return fail(ErrorCode::invalid_argument, "\"", text, "\" is no ", what, ": ",
                unit_name.empty() ? std::string("the unit is missing")
                                  : fmt::format("unit \"{}\" is not known", unit_name),
                "; accepted: ", names(units));
  }
  return number * unit->factor;
}

/// A whole number, where 4.7 us is meant to be 4700 ns though 4.7 has no exact double.
Result<std::int64_t> whole(double value, std::string_view text, std::string_view unit) {
  const double nearest = std::round(value);
  if (nearest >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    return fail(ErrorCode::invalid_argument, "\"", text, "\" is more than 63 bits of ", unit,
                " hold");
  }
  if (std::abs(value - nearest) > 1e-12 * std::max(1.0, value)) {
    return fail(ErrorCode::invalid_argument, "\"", text, "\" is not a whole number of ", unit);
  }
  return static_cast<std::int64_t>(nearest);
}

std::string exact_text(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (value >= factor && value % factor == 0)
      return fmt::format("{} {}", value / factor, unit.name);
  }
  return fmt::format("{} {}", value, units.back().name);
}

std::string rate_text(double value, std::initializer_list<Unit> units) {
  for (const Unit& unit : units) {
    if (value >= unit.factor || unit.factor == 1) {
      return fmt::format("{:.12g} {}", value / unit.factor, unit.name);
    }
  }
  return {};
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return parse(text, "size", kSizes)
      .and_then([&](double value) { return whole(value, text, "bytes"); })
      .map([](std::int64_t count) { return Bytes{static_cast<std::uint64_t>(count)}; });
}

Result<Nanos> parse_time(std::string_view text) {
  return parse(text, "time", kTimes)
      .and_then([&](double value) { return whole(value, text, "nanoseconds"); })
      .map([](std::int64_t count) { return Nanos{count}; });
}

Result<BytesPerSecond> parse_bandwidth(std::string_view text) {
  return parse(text, "bandwidth", kBandwidths).map([](double v) { return BytesPerSecond{v}; });
}

Result<PerSecond> parse_rate(std::string_view text) {
  return parse(text, "rate", kRates).map([](double v) { return PerSecond{v}; });
}

std::string to_text(Bytes size) { return exact_text(size.count, kSizes); }

std::string to_text(Nanos time) {
  const std::int64_t ns = time.count();
  if (ns < 0) return "-" + to_text(-time);
  if (ns < 1000) return fmt::format("{} ns", ns);
  // Twelve digits hold a millisecond's picoseconds; beyond, print what is exact.
  if (ns < 1'000'000) return fmt::format("{:.12g} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.12g} ms", static_cast<double>(ns) / 1e6);
  return exact_text(static_cast<std::uint64_t>(ns), kTimes);
}

std::string to_text(BytesPerSecond bandwidth) {
  return rate_text(bandwidth.value,
                   {{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}});
}

std::string to_text(PerSecond rate) {
  return rate_text(rate.value, {{"G/s", 1e9}, {"M/s", 1e6}, {"k/s", 1e3}, {"/s", 1}});
}

}  // namespace engram::model
