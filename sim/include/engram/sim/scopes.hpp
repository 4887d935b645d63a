// When a store becomes visible to whom: the reason a barrier needs a release of the right scope.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engram/model/profile.hpp"
#include "engram/sim/time.hpp"

namespace engram::sim {

enum class Scope : std::uint8_t { own_gpu, domain, system };

/// How long a plain store takes to be visible to observers of `scope`.
[[nodiscard]] inline Picos visibility_delay(const model::ScopeProfile& profile, Scope scope) {
  switch (scope) {
    case Scope::own_gpu:
      return profile.own_gpu;
    case Scope::domain:
      return profile.domain;
    case Scope::system:
      return profile.system;
  }
  return profile.system;
}

/// The stores of one rank, as far as others may see them. A store is visible to a scope its delay
/// after it was made; a release makes every earlier store visible to its scope at once, and the
/// instant of the release is what its flag may be seen at. Narrower scopes are included.
class StoreVisibility {
 public:
  explicit StoreVisibility(const model::ScopeProfile& profile) : profile_(profile) {}

  void store(Picos at) { last_store_ = std::max(last_store_, at); }

  /// Everything stored until `at` is visible to `scope` from the answer on.
  [[nodiscard]] Picos release(Picos at, Scope scope) {
    const Picos done = visible_at(at, scope);
    for (auto s = static_cast<std::size_t>(scope) + 1; s-- > 0;)
      released_[s] = std::max(released_[s], at);
    return done;
  }

  /// Whether all stores until now are visible to an observer of `scope` at `now`: by a release of
  /// that scope or a wider one, or because enough time has passed.
  [[nodiscard]] bool all_visible(Picos now, Scope scope) const {
    if (last_store_ < Picos{0}) return true;
    return released_[static_cast<std::size_t>(scope)] >= last_store_ ||
           now >= visible_at(last_store_, scope);
  }

 private:
  [[nodiscard]] Picos visible_at(Picos stored, Scope scope) const {
    return stored + visibility_delay(profile_, scope);
  }

  model::ScopeProfile profile_;
  Picos last_store_{-1};
  Picos released_[3] = {Picos{-1}, Picos{-1}, Picos{-1}};
};

}  // namespace engram::sim
