// Quantities as people write them: "50 GB/s", "400 Gb/s", "1.5 us", "45 M/s", "2 MiB".
// Used by profiles and scenarios alike. A number and a unit, with or without a space between.
//
//   sizes       B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)
//   times       ns, us, ms, s
//   bandwidths  a size unit and "/s", or bits: b/s, kb/s, Mb/s, Gb/s, Tb/s
//   rates       /s, k/s, M/s, G/s
//
// Every parser's error is invalid_argument: it repeats the text and lists the units accepted. All
// refuse negative, infinite and missing numbers.
#pragma once

#include <string>
#include <string_view>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"

namespace engram::model {

/// Refuses a text that does not come to whole bytes ("0.3 B").
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
/// Refuses a text that does not come to whole nanoseconds ("0.5 ns").
[[nodiscard]] Result<Nanos> parse_time(std::string_view text);
[[nodiscard]] Result<BytesPerSecond> parse_bandwidth(std::string_view text);
[[nodiscard]] Result<PerSecond> parse_rate(std::string_view text);

/// Texts that the parsers read back: sizes and times exactly, rates to 12 digits.
[[nodiscard]] std::string to_text(Bytes size);
[[nodiscard]] std::string to_text(Nanos time);
[[nodiscard]] std::string to_text(BytesPerSecond bandwidth);
[[nodiscard]] std::string to_text(PerSecond rate);

}  // namespace engram::model
