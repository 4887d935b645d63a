#include "engram/rendezvous/rank_output.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>

namespace engram::rendezvous {
namespace {

constexpr std::string_view kOwn = "engram: ";

void write_line(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

/// `line` without the numbers of the ranks that it names.
std::string wording_of(std::string_view line) {
  constexpr std::string_view kRank = "rank ";
  std::string wording;
  for (std::size_t at = 0; at < line.size();) {
    const bool named = line.substr(at).starts_with(kRank);
    const std::size_t taken = named ? kRank.size() : 1;
    wording += line.substr(at, taken);
    at += taken;
    while (named && at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0) {
      ++at;
    }
  }
  return wording;
}

}  // namespace

void RankOutput::operator()(Rank rank, bool to_stderr, std::string_view line) {
  if (num_ranks_ == 1) return write_line(to_stderr ? stderr : stdout, fmt::format("{}\n", line));
  if (to_stderr && line.starts_with(kOwn) && counted(rank, line)) return;
  write_line(to_stderr ? stderr : stdout, fmt::format("[{}] {}\n", rank.value, line));
}

bool RankOutput::counted(Rank rank, std::string_view line) {
  const auto [at, is_new] = by_wording_.try_emplace(wording_of(line), messages_.size());
  if (is_new) messages_.push_back({std::string(line), rank, {}});
  Message& message = messages_[at->second];
  if (message.first == rank) return false;
  message.others.insert(rank);
  return true;
}

void RankOutput::finish() {
  for (const Message& message : messages_) {
    const std::size_t more = message.others.size();
    if (more == 0) continue;
    write_line(stderr,
               fmt::format("[{} more rank{}] {}\n", more, more == 1 ? "" : "s", message.text));
  }
}

}  // namespace engram::rendezvous
