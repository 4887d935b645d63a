// Profiles as files. A file states each number beside its source:
//
//   source = "4x H200 nodes, ConnectX-7 at 200 Gb/s; [K]"     # one line, required
//   extends = "h200-cx7-200"                                  # optional: start from this profile
//   [nic]
//   port = { value = "25 GB/s", source = "[K] 200 Gb/s" }
//
// Keys are the members of Profile's parts ("nic.cache.capacity"); units as in quantity.hpp, plain
// integers for counts, booleans for flags. A number that no one measured or published says
// "assumed: why". Without `extends`, a file must state every key.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engram/core/result.hpp"
#include "engram/model/profile.hpp"

namespace engram::model {

/// Where the profiles of this build and of the installed package lie, in the order to look.
[[nodiscard]] std::vector<std::filesystem::path> default_profile_dirs();

/// `name_or_path`: a path if it ends in ".toml", else DIR/NAME.toml of the first folder with it.
/// Errors: not_found, listing the names that exist; invalid_argument, "FILE:LINE: KEY: …", for an
/// unknown key (with the nearest known one), a missing key or source, a wrong type or unit.
[[nodiscard]] Result<Profile> load_profile(std::string_view name_or_path,
                                           std::span<const std::filesystem::path> dirs);

/// The names load_profile knows, sorted.
[[nodiscard]] std::vector<std::string> profile_names(std::span<const std::filesystem::path> dirs);

/// Sets what `table` states, in tables shaped like a profile file. A value may stand alone
/// ("25 GB/s"); its source is then "FILE:LINE". Errors: as load_profile; the profile is then as
/// before.
[[nodiscard]] Result<void> apply_overrides(Profile& profile, const toml::table& table);

/// Sets one key ("nic.port") from its text, as given on a command line.
[[nodiscard]] Result<void> apply_override(Profile& profile, std::string_view key,
                                          std::string_view text);

/// All keys, in the order of the header ("gpu.sms", …).
[[nodiscard]] std::vector<std::string> profile_keys();

/// Keys of the rates that are 0, which is no limit.
[[nodiscard]] std::vector<std::string> unlimited_rates(const Profile& profile);

struct ProfileEntry {
  std::string key, value, source;
};
/// The profile as rows, values with units, in the order of profile_keys().
[[nodiscard]] std::vector<ProfileEntry> profile_entries(const Profile& profile);

}  // namespace engram::model
