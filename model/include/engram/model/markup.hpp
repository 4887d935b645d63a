// Text inside SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace engram::model {

/// For element text and attribute values in double quotes.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace engram::model
