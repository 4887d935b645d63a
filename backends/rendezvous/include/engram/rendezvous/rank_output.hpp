// What the ranks of a local job print, on this process's stdout and stderr.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/index.hpp"

namespace engram::rendezvous {

/// A sink for LaunchOptions (by std::ref): writes "[rank] line", each line in one write; of one
/// rank alone the bare line. A message of our own programs ("engram: ..." on stderr) that another
/// rank has printed already, but for the ranks that it names, is counted instead: when one of 80
/// ranks fails, the others have little else to say.
class RankOutput {
 public:
  explicit RankOutput(std::uint32_t num_ranks) : num_ranks_(num_ranks) {}

  void operator()(Rank rank, bool to_stderr, std::string_view line);
  /// Once, when all have ended: "[78 more ranks] line" on stderr for what was counted.
  void finish();

 private:
  struct Message {
    std::string text;  ///< as the first rank printed it
    Rank first;
    std::set<Rank> others;
  };
  [[nodiscard]] bool counted(Rank rank, std::string_view line);

  std::uint32_t num_ranks_;
  std::vector<Message> messages_;                  ///< in order of their first line
  std::map<std::string, std::size_t> by_wording_;  ///< index into messages_
};

}  // namespace engram::rendezvous
