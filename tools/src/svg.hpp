// Pieces of SVG and HTML text.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "engram/model/markup.hpp"

namespace engram::tools {

using model::escape_html;

/// Ten colours that stay apart for most colour-blind readers; repeats.
[[nodiscard]] std::string_view palette(std::size_t i);

/// A round step (1, 2 or 5 times a power of ten) that cuts `range` in at most `parts` parts.
[[nodiscard]] double round_step(double range, int parts);

class Svg {
 public:
  Svg(double width, double height);
  void rect(double x, double y, double width, double height, std::string_view fill,
            std::string_view tooltip = "");
  void line(double x1, double y1, double x2, double y2, std::string_view css_class,
            std::string_view stroke = "");
  /// `anchor`: start, middle, end.
  void text(double x, double y, std::string_view text, std::string_view anchor = "start",
            std::string_view css_class = "");
  void circle(double x, double y, double radius, std::string_view fill, std::string_view tooltip);
  void polyline(std::string_view points, std::string_view stroke, bool dashed = false);
  [[nodiscard]] std::string take();

 private:
  std::string text_;
};

}  // namespace engram::tools
