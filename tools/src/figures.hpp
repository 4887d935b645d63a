// Numbers as reports show them, and the parts of a result in the order reports list them.
#pragma once

#include <cstdint>
#include <string>
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

/// local, nvlink, host, rdma.
[[nodiscard]] std::vector<std::pair<std::string, PathUse>> named_paths(const PathShares& paths);
/// The `most` links with the highest load; by name where equal; idle ones are left out.
[[nodiscard]] std::vector<LinkLoad> busiest_links(std::vector<LinkLoad> links, std::size_t most);

}  // namespace engram::tools
