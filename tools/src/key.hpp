// One row of the table of keys: how it is written, read and explained.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "value.hpp"

namespace engram::tools {

/// `Target` is Scenario, or what one entry of an array of tables makes.
template <class Target>
struct Key {
  std::string path;      ///< dotted; relative to the entry for arrays of tables
  std::string accepted;  ///< completes "accepted: ..."
  std::string fallback;  ///< the default as TOML, or why there is none
  std::string meaning;
  std::function<Complaint(Target&, const toml::node&)> read;
};

/// The member that a chain of member pointers leads to: at(&Scenario::run, &RunSection::seed).
template <class... Members>
[[nodiscard]] auto at(Members... members) {
  return [members...](auto& target) -> auto& { return (target.*....*members); };
}

/// Range and phrases of one value's type, for "accepted: ...".
struct Words {
  std::string accepted;
  std::string when_unset = "";  ///< shown where the default is unset
  std::string meaning;
};

template <class Target, class Member>
[[nodiscard]] Key<Target> key(std::string path, Member member, Limits limits, Words words) {
  const Target defaults{};
  std::string fallback = write_value(member(defaults));
  if (fallback.empty() || fallback == "\"\"" || fallback == "[]" || fallback == "{}") {
    fallback = words.when_unset;
  }
  return {std::move(path), std::move(words.accepted), std::move(fallback), std::move(words.meaning),
          [member, limits](Target& target, const toml::node& node) {
            return read_value(node, limits, member(target));
          }};
}

}  // namespace engram::tools
