#include "engram/rendezvous/secret.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>

#include "engram/core/result.hpp"

namespace engram::rendezvous {

std::string random_secret() {
  std::array<std::uint8_t, 16> raw{};
  require(::getrandom(raw.data(), raw.size(), 0) == static_cast<ssize_t>(raw.size()),
          "the kernel gives 16 random bytes at once");
  std::string text;
  for (const std::uint8_t byte : raw) text += fmt::format("{:02x}", byte);
  return text;
}

bool equal_in_constant_time(std::string_view expected, std::string_view given) {
  // A volatile accumulator: the compiler may not leave the loop at the first difference.
  volatile std::uint8_t difference = expected.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference = static_cast<std::uint8_t>(difference | (other ^ given[i]));
  }
  return difference == 0;
}

}  // namespace engram::rendezvous
