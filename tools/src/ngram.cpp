#include "ngram.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "random.hpp"

namespace engram::tools {
namespace {

bool is_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}

}  // namespace

std::vector<std::uint32_t> words_of(std::string_view text) {
  std::vector<std::uint32_t> words;
  std::unordered_map<std::string, std::uint32_t> numbers;
  std::string word;
  const auto finish = [&] {
    if (word.empty()) return;
    const auto next = static_cast<std::uint32_t>(numbers.size());
    words.push_back(numbers.try_emplace(word, next).first->second);
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool inner = c == '\'' && !word.empty() && i + 1 < text.size() && is_letter(text[i + 1]);
    if (is_letter(c) || inner) {
      word += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else {
      finish();
    }
  }
  finish();
  return words;
}

bool is_prime(std::uint64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0 || n % 3 == 0) return false;
  for (std::uint64_t d = 5; d <= n / d; d += 6) {
    if (n % d == 0 || n % (d + 2) == 0) return false;
  }
  return true;
}

std::uint64_t prime_at_most(std::uint64_t n) {
  while (!is_prime(n)) --n;
  return n;
}

NgramHash::NgramHash(std::uint64_t rows, std::vector<std::uint32_t> orders, std::uint32_t heads,
                     std::uint32_t layer)
    : orders_(std::move(orders)),
      heads_(heads),
      most_words_(*std::max_element(orders_.begin(), orders_.end())) {
  const std::uint64_t count = orders_.size() * heads_;
  const std::uint64_t region = rows / count;
  Stream stream(0x656e6772616dull, layer);  // of the model, not of a run: no seed enters
  std::uint64_t prime = region + 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (region < 2) {
      regions_.push_back({0, rows});  // too few rows to share out: every head uses them all
    } else {
      prime = prime_at_most(prime > 2 ? prime - 1 : region);
      regions_.push_back({i * region, prime});
    }
    for (std::uint32_t word = 0; word < most_words_; ++word) {
      multipliers_.push_back(stream.next() | 1);
    }
  }
}

void NgramHash::append(const std::vector<std::uint32_t>& words, std::size_t at,
                       std::vector<std::int64_t>& out) const {
  std::size_t region = 0;
  for (const auto order : orders_) {
    for (std::uint32_t head = 0; head < heads_; ++head, ++region) {
      std::uint64_t hash = 0;
      for (std::uint32_t back = 0; back < order; ++back) {
        const auto index = (at + words.size() - back % words.size()) % words.size();
        hash ^= (words[index] + 1ull) * multipliers_[region * most_words_ + back];
      }
      // The low bits of a product depend on few bits of its factors; mix before the remainder.
      const auto& [base, modulus] = regions_[region];
      out.push_back(static_cast<std::int64_t>(base + mix64(hash) % modulus));
    }
  }
}

}  // namespace engram::tools
