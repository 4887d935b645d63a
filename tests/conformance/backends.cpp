#include "support/backends.hpp"

#include "engram/loopback/loopback.hpp"

namespace engram::test {
namespace {

std::unique_ptr<core::Backend> loopback_for(const FetchCase& c) {
  loopback::LoopbackOptions options;
  options.grid = *c.grid();
  options.seed = c.seed;
  options.reads_in_flight = c.reads_in_flight;
  options.first_count = c.first_count;
  options.flush_rings = c.flush_rings;
  return loopback::make_loopback(options);
}

}  // namespace

const std::vector<BackendKind>& backends() {
  static const std::vector<BackendKind> kinds{{"loopback", loopback_for}};
  return kinds;
}

}  // namespace engram::test
