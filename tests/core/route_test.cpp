#include "engram/core/route.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/gen.hpp"

namespace engram::core {
namespace {}  // namespace
}  // namespace engram::core
