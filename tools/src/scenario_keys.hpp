// The table of every key a scenario may hold; parser and reference are both made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engram/tools/scenario.hpp"
#include "key.hpp"

namespace engram::tools {

[[nodiscard]] const std::vector<Key<Scenario>>& scenario_keys();
[[nodiscard]] const std::vector<Key<BackgroundTraffic>>& background_keys();
[[nodiscard]] const std::vector<Key<Fault>>& fault_keys();

/// What a section is for, in the order of the reference.
struct SectionNote {
  std::string_view name, meaning;
};
[[nodiscard]] const std::vector<SectionNote>& scenario_sections();

/// Its keys are a profile's, not ours: handed on as they are.
inline constexpr std::string_view kOverrideSection = "cluster.override";
/// QPs (contexts x peers) that no NIC profile exceeds; the profile's own limit is checked later.
inline constexpr double kMostQps = 65536;
/// Deepest queue of the reference (V2.5).
inline constexpr double kMostDepth = 32768;

}  // namespace engram::tools
