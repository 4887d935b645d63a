#include "engram/tools/trace_diff.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace engram::tools {
namespace {

using Json = nlohmann::ordered_json;

/// The events of a file as ChromeTraceWriter writes it: one a line.
class TraceReader {
 public:
  explicit TraceReader(const std::string& path) : path_(path), in_(path, std::ios::binary) {}

  Result<void> open() {
    if (!in_) return fail(ErrorCode::not_found, path_, ": cannot be read");
    std::string head;
    std::getline(in_, head);
    ++line_;
    if (head.find("\"traceEvents\":[") == std::string::npos) {
      return fail(ErrorCode::invalid_argument, path_, ":1: no trace; accepted: a file that ",
                  "`engram run --trace` wrote");
    }
    return {};
  }

  /// The next event that is no metadata (its names are kept); none at the end.
  Result<std::optional<Json>> next() {
    for (std::string text; std::getline(in_, text);) {
      ++line_;
      if (text == "]}") return std::nullopt;
      if (text.ends_with(',')) text.pop_back();
      Json event = Json::parse(text, nullptr, false);
      if (event.is_discarded() || !event.is_object() || !event.contains("ph")) {
        return fail(ErrorCode::invalid_argument, path_, ":", line_, ": no trace event: ", text);
      }
      if (event["ph"] != "M") return event;
      names_[{event["name"], event["pid"], event["tid"]}] = event["args"]["name"];
    }
    return fail(ErrorCode::invalid_argument, path_, ":", line_,
                ": the trace is cut off; accepted: a file that ends in ]}");
  }

  std::string describe(const std::optional<Json>& event) const {
    if (!event) return fmt::format("{}: no more events", path_);
    const auto& e = *event;
    const auto thread = names_.find({"thread_name", e["pid"], e["tid"]});
    std::string text = fmt::format(
        "{}:{}: rank {}, {}: '{}' at {:.3f} us", path_, line_, e["pid"].dump(),
        thread == names_.end() ? "thread " + e["tid"].dump() : thread->second,
        e["name"].get<std::string>(), e["ts"].get<double>());
    if (e.contains("dur")) text += fmt::format(" for {:.3f} us", e["dur"].get<double>());
    if (e.contains("id")) text += " id " + e["id"].dump();
    if (e.contains("args")) text += " " + e["args"].dump();
    return text;
  }

 private:
  struct Name {
    std::string what;
    std::uint64_t pid, tid;
    auto operator<=>(const Name&) const = default;
  };
  std::string path_;
  std::ifstream in_;
  std::uint64_t line_ = 0;
  std::map<Name, std::string> names_;
};

std::string differing_fields(const std::optional<Json>& a, const std::optional<Json>& b) {
  if (!a || !b) return "one trace has ended";
  std::string names;
  for (const auto& [key, value] : a->items()) {
    if (!b->contains(key) || (*b)[key] != value) names += (names.empty() ? "" : ", ") + key;
  }
  for (const auto& [key, value] : b->items()) {
    if (!a->contains(key)) names += (names.empty() ? "" : ", ") + key;
  }
  return "differs in: " + names;
}

}  // namespace

Result<std::optional<TraceDifference>> diff_traces(const std::string& left,
                                                   const std::string& right) {
  TraceReader a(left), b(right);
  for (auto* reader : {&a, &b}) {
    if (auto opened = reader->open(); !opened) return tl::unexpected(opened.error());
  }
  for (std::uint64_t event = 0;; ++event) {
    auto first = a.next();
    if (!first) return tl::unexpected(first.error());
    auto second = b.next();
    if (!second) return tl::unexpected(second.error());
    if (*first != *second) {
      return TraceDifference{event, fmt::format("event {} {}\n  {}\n  {}", event,
                                                differing_fields(*first, *second),
                                                a.describe(*first), b.describe(*second))};
    }
    if (!*first) return std::nullopt;
  }
}

}  // namespace engram::tools
