// The frame that both kinds of page share.
#pragma once

#include <string>
#include <string_view>

#include "engram/tools/scenario.hpp"

namespace engram::tools {

class HtmlPage {
 public:
  explicit HtmlPage(std::string_view title);
  void heading(std::string_view text, std::string_view note = "");
  void raw(std::string_view html) { text_ += html; }
  void list(std::string_view css_class, const std::vector<std::string>& lines);
  /// The file as it was read and what was set over it.
  void scenario(const Scenario& scenario);
  [[nodiscard]] std::string take();

 private:
  std::string text_;
};

/// "<span class=key><i style=background:…></i>name</span>…"
[[nodiscard]] std::string legend(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace engram::tools
