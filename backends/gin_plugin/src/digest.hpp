// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for handshakes only.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace engram::gin_plugin {

using Digest = std::array<std::byte, 32>;

[[nodiscard]] Digest sha256(std::span<const std::byte> text);
[[nodiscard]] Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> text);
/// Takes the same time wherever the two differ.
[[nodiscard]] bool equal(const Digest& a, const Digest& b);

}  // namespace engram::gin_plugin
