#include "html_page.hpp"

#include <fmt/format.h>

#include "svg.hpp"

namespace engram::tools {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--ink:#1d2330;--soft:#5d6678;--line:#dfe3ea;--card:#fff;--page:#f5f6f8;
--good:#1a7f4b;--bad:#c2321f;--accent:#4269d0}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--soft:#9aa3b5;--line:#343b49;--card:#1e232d;
--page:#14181f;--good:#4fc388;--bad:#ff7a66;--accent:#7d9bf0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 4px}
h2{font-size:17px;margin:0 0 2px}
.sub,.note{color:var(--soft);margin:0 0 12px}
.note{font-size:13px}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px;margin:14px 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0 14px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.tile b{display:block;font-size:21px;line-height:1.3;white-space:nowrap}
.tile span{color:var(--soft);font-size:12.5px}
.good{color:var(--good)}.bad{color:var(--bad)}
svg{display:block;height:auto;overflow:visible}
svg text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:var(--ink)}
svg text.soft{fill:var(--soft);font-size:11px}
svg text.strong{font-weight:600}
svg .grid{stroke:var(--line);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}
svg .mark{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:4 3}
.legend{margin:8px 0 0;font-size:13px}
.key{margin-right:16px;white-space:nowrap}
.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
pre{margin:0;overflow-x:auto;font:12.5px/1.45 ui-monospace,"DejaVu Sans Mono",monospace}
ul{margin:4px 0;padding-left:20px}
ul.warnings li{color:var(--bad)}
.scroll{overflow-x:auto}
)";

}  // namespace

HtmlPage::HtmlPage(std::string_view title)
    : text_(fmt::format(
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n"
          "<style>{}</style></head><body><main>\n",
          escape_html(title), kStyle)) {}

void HtmlPage::heading(std::string_view text, std::string_view note) {
  text_ += fmt::format("<h2>{}</h2>\n", escape_html(text));
  text_ += fmt::format("<p class=\"note\">{}</p>\n", escape_html(note));
}

void HtmlPage::list(std::string_view css_class, const std::vector<std::string>& lines) {
  text_ += fmt::format("<ul class=\"{}\">", css_class);
  for (const auto& line : lines) text_ += fmt::format("<li>{}</li>\n", escape_html(line));
  text_ += "</ul>\n";
}

void HtmlPage::scenario(const Scenario& scenario) {
  if (scenario.text.empty()) return;
  text_ += "<section>";
  heading("Scenario", scenario.path);
  if (!scenario.set_overrides.empty()) {
    text_ += "<p class=\"note\">with";
    for (const auto& set : scenario.set_overrides) {
      text_ += fmt::format(" <code>--set {}</code>", escape_html(set));
    }
    text_ += "</p>\n";
  }
  text_ += fmt::format("<pre>{}</pre></section>\n", escape_html(scenario.text));
}

std::string HtmlPage::take() { return std::move(text_) + "</main></body></html>\n"; }

std::string legend(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text = "<p class=\"legend\">";
  for (const auto& [name, colour] : entries) {
    text += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", colour,
                        escape_html(name));
  }
  return text + "</p>\n";
}

}  // namespace engram::tools
