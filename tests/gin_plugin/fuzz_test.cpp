// A connected, authenticated peer that sends nonsense: the rank ends with an error, not a crash.
// ENGRAM_FUZZ_SECONDS sets how long; fuzz.sh runs it for longer.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "harness.hpp"
#include "sockets.hpp"
#include "wire.hpp"

namespace engram::gin_plugin::testing {
namespace {

Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

/// A message that is right in most fields and wrong in some.
std::vector<std::byte> nonsense(std::mt19937_64& random) {
  MessageHead head;
  const auto pick = random() % 8;
  head.kind = static_cast<MessageKind>(pick == 0 ? random() % 64 : 1 + random() % 7);
  if (random() % 16 == 0) head.magic = static_cast<std::uint32_t>(random());
  head.request = random() % 4;
  head.count = static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 4);
  head.payload = random() % 4 == 0 ? random() % 4096 : random() % 8 == 0 ? random() : 0;
  const auto shape = random() % 4;
  if (shape == 0) head.count = 1, head.payload = 0;
  std::vector<std::byte> text(sizeof head + (head.count % 5) * 16 + head.payload % 5000);
  for (auto& b : text) b = static_cast<std::byte>(random());
  std::memcpy(text.data(), &head, sizeof head);
  if (shape == 1 && text.size() >= sizeof head + sizeof(CopyEntry)) {
    const CopyEntry entry{random() % (1 << 17), static_cast<std::uint32_t>(random() % 5000),
                          static_cast<std::uint16_t>(random() % 3), 0};
    std::memcpy(text.data() + sizeof head, &entry, sizeof entry);
  }
  return text;
}

/// Rank 0 is real; rank 1 is played by hand: it proves itself, registers nothing and talks.
void one_round(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Settings settings = World::quiet_settings();
  settings.transport = Transport::tcp;
  settings.exchange_limit = std::chrono::seconds(5);
  std::array<std::byte, abi::kHandleBytes> handles[2];
  auto real = open_listener(settings, handles[0]);
  auto played = open_listener(settings, handles[1]);
  ASSERT_TRUE(real.has_value() && played.has_value());
  Endpoint there;
  std::memcpy(&there, handles[0].data(), sizeof there);
  std::thread peer([&] {
    auto control = dial(there, false, Rank{1}, Channel::control, settings.secret, soon());
    auto data = dial(there, false, Rank{1}, Channel::data, settings.secret, soon());
    ASSERT_TRUE(control.has_value() && data.has_value());
    for (int i = 0; i < 20; ++i) {
      const auto text = nonsense(random);
      const bool on_control = random() % 8 == 0;
      auto ok = write_all(on_control ? control->get() : data->get(), text, soon());
      if (!ok) break;  // it has hung up: right
    }
  });
  const std::byte* pointers[2] = {handles[0].data(), handles[1].data()};
  auto device = make_host_device({});
  auto memory = device->allocate_shared(Bytes{1 << 16});
  auto fabric = Fabric::connect(std::move(device), settings, **real, pointers, Rank{0},
                                [](bool, const std::string&) {});
  ASSERT_TRUE(fabric.has_value()) << fabric.error().message;
  auto region = (*fabric)->register_region(memory->get(), Bytes{1 << 16}, false, 0);
  EXPECT_FALSE(region.has_value()) << "nonsense is not an offer";
  peer.join();
  EXPECT_TRUE(eventually([&] { return (*fabric)->error().has_value(); })) << "seed " << seed;
  memory->reset();
}

TEST(Fuzz, NonsenseFromAPeerEndsInAnError) {
  const char* text = std::getenv("ENGRAM_FUZZ_SECONDS");
  const int seconds = text != nullptr ? std::atoi(text) : 5;
  const char* chosen = std::getenv("ENGRAM_FUZZ_SEED");
  std::uint64_t seed =
      chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int rounds = 0;
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    one_round(seed++);
    ++rounds;
  }
  std::printf("%d rounds\n", rounds);
  EXPECT_GT(rounds, 0);
}

}  // namespace
}  // namespace engram::gin_plugin::testing
