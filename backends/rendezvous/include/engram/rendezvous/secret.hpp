// Secrets that keep strangers out of a job.
#pragma once

#include <string>
#include <string_view>

namespace engram::rendezvous {

/// 128 random bits from the kernel as 32 hexadecimal digits.
[[nodiscard]] std::string random_secret();

/// Whether the texts are equal, in a time that depends on the length of `given` alone.
[[nodiscard]] bool equal_in_constant_time(std::string_view expected, std::string_view given);

}  // namespace engram::rendezvous
