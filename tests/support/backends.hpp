// The backends that one process can run, by name: the conformance suite is instantiated over them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "support/fetch_case.hpp"

namespace engram::test {

struct BackendKind {
  std::string name;
  /// A fresh backend for one run of `c`.
  std::function<std::unique_ptr<core::Backend>(const FetchCase& c)> make;
};

/// Every backend that this build has; defined beside the suite that links them.
[[nodiscard]] const std::vector<BackendKind>& backends();

/// How GoogleTest shows the parameter.
inline void PrintTo(const BackendKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace engram::test
