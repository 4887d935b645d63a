// "Did you mean …?" for keys, units and names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace engram::model {

/// The candidate with the fewest single-letter edits (insert, drop, replace, swap neighbours) from
/// `name`; the first of several. Nothing if there is none, or none within half of `name`'s length.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name,
                                                      std::span<const std::string> candidates);

}  // namespace engram::model
