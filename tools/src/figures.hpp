// Numbers as reports show them, and the parts of a result in the order reports list them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engram/tools/run_result.hpp"

namespace engram::tools {

/// "812 ns", "27.4 us", "1.93 ms", "2.50 s"
[[nodiscard]] std::string show(Nanos time);
/// "512 B", "3.15 MB", "1.20 GB" (powers of 1000)
[[nodiscard]] std::string show(Bytes size);
/// "12,288"
[[nodiscard]] std::string grouped(std::uint64_t value);

/// "dcqcn marked 1,204 packets and slowed senders 12 times, at most to 6.25 GB/s"
[[nodiscard]] std::string congestion_text(const RunResult::Congestion& congestion);
/// "at 513 us of simulated time; no repeat had ended". Precondition: `failed_at` is set.
[[nodiscard]] std::string failure_time(const RunResult& result);
/// "1 rank", "3 ranks"
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);
/// local, nvlink, host, rdma.
[[nodiscard]] std::vector<std::pair<std::string, PathUse>> named_paths(const PathShares& paths);
/// The `most` links with the highest load; by name where equal; idle ones are left out.
[[nodiscard]] std::vector<LinkLoad> busiest_links(std::vector<LinkLoad> links, std::size_t most);

}  // namespace engram::tools
