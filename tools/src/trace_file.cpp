#include "trace_file.hpp"

#include <charconv>
#include <fstream>
#include <string_view>
#include <utility>

namespace engram::tools {
namespace {

class TraceReader {
 public:
  TraceReader(const std::string& path, const TraceShape& shape)
      : path_(path), shape_(shape), layers_(shape.rows.size()) {}

  Result<void> add_line(const std::string& text, bool cut_off) {
    ++line_;
    const auto first = text.find_first_not_of(" \t\r,");
    if (first == std::string::npos || text[first] == '#') return {};
    if (cut_off) {
      return fail(ErrorCode::invalid_argument, path_, ":", line_,
                  ": the file is truncated: its last line has no end; accepted: whole lines");
    }
    std::vector<std::int64_t> values;
    if (auto parsed = parse(text, values); !parsed) return parsed;
    const std::size_t entries = shape_.entries;
    if (values.size() != entries && values.size() != entries * layers_) {
      return layers_ == 1
                 ? fail(ErrorCode::invalid_argument, path_, ":", line_, ": ", values.size(),
                        " rows; accepted: ", entries)
                 : fail(ErrorCode::invalid_argument, path_, ":", line_, ": ", values.size(),
                        " rows; accepted: ", entries, " (every layer alike) or ", entries * layers_,
                        " (", layers_, " layers x ", entries, ")");
    }
    const bool alike = values.size() == entries;
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      for (std::size_t i = 0; i < entries; ++i) {
        const auto row = values[alike ? i : layer * entries + i];
        const auto count = shape_.rows[layer];
        if (row < -1 || (row >= 0 && static_cast<std::uint64_t>(row) >= count)) {
          return fail(ErrorCode::invalid_argument, path_, ":", line_, ": row ", row, " of ", count,
                      " in layer ", layer, "; accepted: -1 to ", count - 1);
        }
        rows_.push_back(row);
      }
    }
    ++tokens_;
    return {};
  }

  Result<std::vector<std::int64_t>> finish() {
    if (tokens_ < shape_.tokens) {
      return fail(ErrorCode::invalid_argument, path_, ":", line_, ": the file ends after ", tokens_,
                  " tokens; accepted: at least ", shape_.tokens);
    }
    return std::move(rows_);
  }

 private:
  Result<void> parse(const std::string& text, std::vector<std::int64_t>& values) const {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const auto separates = [](char c) { return c == ' ' || c == '\t' || c == ',' || c == '\r'; };
    for (const char* at = begin; at != end;) {
      if (separates(*at)) {
        ++at;
        continue;
      }
      std::int64_t value = 0;
      const auto [stop, error] = std::from_chars(at, end, value);
      if (error != std::errc{} || (stop != end && !separates(*stop))) {
        const char* word_end = at;
        while (word_end != end && !separates(*word_end)) ++word_end;
        return fail(ErrorCode::invalid_argument, path_, ":", line_, ":", at - begin + 1, ": \"",
                    std::string_view(at, word_end), "\" is ",
                    error == std::errc::result_out_of_range ? "too big" : "no integer",
                    "; accepted: rows from 0, or -1 for none");
      }
      values.push_back(value);
      at = stop;
    }
    return {};
  }

  const std::string& path_;
  const TraceShape& shape_;
  const std::size_t layers_;
  std::uint64_t line_ = 0, tokens_ = 0;
  std::vector<std::int64_t> rows_;
};

}  // namespace

Result<std::vector<std::int64_t>> read_trace_file(const std::string& path,
                                                  const TraceShape& shape) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::not_found, path, ": the trace cannot be read");
  TraceReader reader(path, shape);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // editors put it in front
  bool first = true;
  for (std::string line; std::getline(in, line);) {
    if (std::exchange(first, false) && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    // getline meets the end of the file inside a line only where the line has no newline.
    if (auto added = reader.add_line(line, in.eof()); !added) return tl::unexpected(added.error());
  }
  return reader.finish();
}

}  // namespace engram::tools
