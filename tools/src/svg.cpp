#include "svg.hpp"

#include <fmt/format.h>

#include <cmath>

namespace engram::tools {

std::string_view palette(std::size_t i) {
  static constexpr std::array<std::string_view, 10> kColours{
      "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
      "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"};
  return kColours[i % kColours.size()];
}

double round_step(double range, int parts) {
  if (!(range > 0)) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(range / parts)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (range / (power * factor) <= parts) return power * factor;
  }
  return power * 10;
}

Svg::Svg(double width, double height)
    : text_(fmt::format("<svg viewBox=\"0 0 {0:g} {1:g}\" width=\"100%\" role=\"img\" "
                        "xmlns=\"http://www.w3.org/2000/svg\">\n",
                        width, height)) {}

void Svg::rect(double x, double y, double width, double height, std::string_view fill,
               std::string_view tooltip) {
  text_ += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "fill=\"{}\"",
      x, y, width, height, fill);
  text_ +=
      tooltip.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape_html(tooltip));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class,
               std::string_view stroke) {
  text_ += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" class=\"{}\"",
                       x1, y1, x2, y2, css_class);
  text_ += stroke.empty() ? "/>\n" : fmt::format(" style=\"stroke:{}\"/>\n", stroke);
}

void Svg::text(double x, double y, std::string_view text, std::string_view anchor,
               std::string_view css_class) {
  text_ += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                       anchor, css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class),
                       escape_html(text));
}

void Svg::circle(double x, double y, double radius, std::string_view fill,
                 std::string_view tooltip) {
  text_ += fmt::format(
      "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" fill=\"{}\"><title>{}"
      "</title></circle>\n",
      x, y, radius, fill, escape_html(tooltip));
}

void Svg::polyline(std::string_view points, std::string_view stroke, bool dashed) {
  text_ +=
      fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
                  points, stroke, dashed ? 1.5 : 2.5, dashed ? " stroke-dasharray=\"5 4\"" : "");
}

std::string Svg::take() { return std::move(text_) + "</svg>\n"; }

}  // namespace engram::tools
