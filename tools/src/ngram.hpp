// Rows as hashes of word n-grams, as an Engram layer asks for them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace engram::tools {

/// Words of a text as numbers by first appearance: letters, digits and inner apostrophes, case
/// folded (ASCII; other bytes count as letters).
[[nodiscard]] std::vector<std::uint32_t> words_of(std::string_view text);

[[nodiscard]] bool is_prime(std::uint64_t n);
/// Precondition: n >= 2.
[[nodiscard]] std::uint64_t prime_at_most(std::uint64_t n);

/// One layer's hashes. A table of `rows` is cut in orders x heads regions; head h of an order
/// hashes into its own region modulo its own prime, so that two heads collide independently.
/// (Two tables in production have 384,006,168 rows = 24 primes near 16 million.)
class NgramHash {
 public:
  NgramHash(std::uint64_t rows, std::vector<std::uint32_t> orders, std::uint32_t heads,
            std::uint32_t layer);
  /// Appends the orders x heads rows of the n-grams that end at word `at` of `words`, which wraps.
  void append(const std::vector<std::uint32_t>& words, std::size_t at,
              std::vector<std::int64_t>& out) const;

 private:
  struct Region {
    std::uint64_t base, modulus;
  };
  std::vector<std::uint32_t> orders_;
  std::uint32_t heads_;
  std::vector<Region> regions_;              // [orders, heads]
  std::vector<std::uint64_t> multipliers_;   // [orders, heads, most words], odd
  std::uint32_t most_words_;
};

}  // namespace engram::tools
