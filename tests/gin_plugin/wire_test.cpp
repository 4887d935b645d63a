// What comes off a socket is an operation or an error, never a crash, and a stranger gets nothing.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <map>
#include <thread>

#include "digest.hpp"
#include "engram/gin_plugin/settings.hpp"
#include "sockets.hpp"
#include "wire.hpp"

namespace engram::gin_plugin {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += fmt::format("{:02x}", std::to_integer<int>(b));
  return text;
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// FIPS 180-2, appendix B; RFC 4231, test case 2.
TEST(Digest, GivesThePublishedValues) {
  EXPECT_EQ(hex(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

// Any 32 bytes: either refused, or a head whose sizes are within the limits that buffers have.
RC_GTEST_PROP(Wire, AHeadIsWithinLimitsOrRefused, ()) {
  MessageHead head;
  head.magic =
      *rc::gen::inRange(0, 8) > 0 ? MessageHead::kMagic : *rc::gen::arbitrary<std::uint32_t>();
  head.kind = static_cast<MessageKind>(*rc::gen::inRange(0, 9));
  head.count = *rc::gen::inRange(0, 4) > 0 ? *rc::gen::inRange<std::uint32_t>(0, 3)
                                           : *rc::gen::arbitrary<std::uint32_t>();
  head.payload = *rc::gen::inRange(0, 4) > 0 ? *rc::gen::inRange<std::uint64_t>(0, 2)
                                             : *rc::gen::arbitrary<std::uint64_t>();
  const auto size = check_head(head);
  RC_CLASSIFY(size.has_value(), "accepted");
  if (!size) return;
  RC_ASSERT(head.magic == MessageHead::kMagic);
  RC_ASSERT(head.payload <= kMaxPayload);
  RC_ASSERT(*size <= kMaxEntries * sizeof(CopyEntry));
}

// Entries are taken only when they fill the payload exactly; sums do not wrap.
RC_GTEST_PROP(Wire, EntriesFitTheirMessage, ()) {
  MessageHead head;
  head.kind = *rc::gen::element(MessageKind::read, MessageKind::write);
  const auto sizes = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::oneOf(
      rc::gen::inRange<std::uint32_t>(0, 2000), rc::gen::arbitrary<std::uint32_t>()));
  std::vector<CopyEntry> entries;
  std::uint64_t sum = 0;
  for (const auto size : sizes) {
    entries.push_back({*rc::gen::arbitrary<std::uint64_t>(), size, 1, 0});
    sum += size;
  }
  head.count = static_cast<std::uint32_t>(entries.size());
  if (head.kind == MessageKind::write) head.payload = *rc::gen::element(sum, sum + 1, sum / 2);
  const auto text = std::as_bytes(std::span(entries));
  const auto taken = read_entries(head, text);
  const bool fits = head.kind == MessageKind::write ? head.payload == sum : sum <= kMaxPayload;
  RC_ASSERT(taken.has_value() == fits);
  if (!text.empty()) RC_ASSERT(!read_entries(head, text.subspan(1)).has_value());
}

Settings loopback(const std::string& secret) {
  Settings settings;
  settings.address = "127.0.0.1";
  settings.secret = secret;
  return settings;
}

Deadline soon(int milliseconds = 3000) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

class Handshake : public ::testing::TestWithParam<bool> {};

TEST_P(Handshake, SameSecretConnects) {
  auto listener = Listener::open(loopback("secret"));
  ASSERT_TRUE(listener.has_value());
  Result<FileHandle> dialled = fail(ErrorCode::internal, "not yet");
  std::thread other([&] {
    dialled = dial(listener->endpoint(), GetParam(), Rank{3}, Channel::data, "secret", soon());
  });
  auto accepted = listener->accept("secret", soon(), {});
  other.join();
  ASSERT_TRUE(accepted.has_value()) << accepted.error().message;
  ASSERT_TRUE(dialled.has_value()) << dialled.error().message;
  EXPECT_EQ(accepted->rank, Rank{3});
  EXPECT_EQ(accepted->channel, Channel::data);
}

TEST_P(Handshake, AnotherSecretDoesNot) {
  auto listener = Listener::open(loopback("secret"));
  ASSERT_TRUE(listener.has_value());
  Result<FileHandle> dialled = fail(ErrorCode::internal, "not yet");
  std::thread other([&] {
    dialled = dial(listener->endpoint(), GetParam(), Rank{3}, Channel::data, "guess", soon());
  });
  std::vector<std::string> remarks;
  auto accepted = listener->accept("secret", soon(700),
                                   [&](const std::string& text) { remarks.push_back(text); });
  other.join();
  ASSERT_FALSE(accepted.has_value());
  // The listening side says it as well, at once and in its error.
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("rank 3 ended at the proof of the job's secret"), std::string::npos);
  EXPECT_NE(accepted.error().message.find(remarks[0]), std::string::npos);
  ASSERT_FALSE(dialled.has_value());
  EXPECT_EQ(dialled.error().code, ErrorCode::invalid_argument);
}

// Bytes of all kinds at the listener's door: none gets in, and a rank of the job still does.
TEST_P(Handshake, StrangersAreDropped) {
  auto listener = Listener::open(loopback(""));
  ASSERT_TRUE(listener.has_value());
  std::thread other([&] {
    Endpoint stranger = listener->endpoint();
    stranger.token.fill(std::byte{1});  // knows the address, not the token
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(dial(stranger, GetParam(), Rank{1}, Channel::control, "", soon()).has_value());
    }
    EXPECT_TRUE(
        dial(listener->endpoint(), GetParam(), Rank{1}, Channel::control, "", soon()).has_value());
  });
  auto accepted = listener->accept("", soon(8000), {});
  other.join();
  ASSERT_TRUE(accepted.has_value()) << accepted.error().message;
}

FileHandle silent_stranger(const Endpoint& to) {
  FileHandle socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(to.address);
  address.sin_port = htons(to.port);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

// Connections that say nothing, or stop after half a greeting, delay no rank of the job.
TEST_P(Handshake, IdleStrangersDelayNobody) {
  auto listener = Listener::open(loopback("secret"));
  ASSERT_TRUE(listener.has_value());
  std::vector<FileHandle> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(silent_stranger(listener->endpoint()));
    const std::array<std::byte, 7> half{};
    if (i % 2 == 1) {
      EXPECT_TRUE(write_all(idle.back().get(), half, soon()).has_value());
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] {
    for (const Channel channel : {Channel::control, Channel::data}) {
      EXPECT_TRUE(dial(listener->endpoint(), GetParam(), Rank{3}, channel, "secret", soon()));
    }
  });
  for (int i = 0; i < 2; ++i) {
    auto accepted = listener->accept("secret", soon(), {});
    EXPECT_TRUE(accepted.has_value()) << accepted.error().message;
  }
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

// More strangers than the lobby holds: the oldest go, the rank that comes last is served.
TEST_P(Handshake, ManyStrangersAreBoundedOldestFirst) {
  auto listener = Listener::open(loopback("secret"));
  ASSERT_TRUE(listener.has_value());
  std::vector<FileHandle> idle;
  for (std::size_t i = 0; i < Lobby::kMaxUnproven + 10; ++i) {
    idle.push_back(silent_stranger(listener->endpoint()));
  }
  const auto none = listener->accept("secret", soon(200), {});  // takes them all in
  EXPECT_FALSE(none.has_value());
  std::size_t closed = 0;
  for (const auto& stranger : idle) {
    std::byte got{};
    closed += recv(stranger.get(), &got, 1, MSG_DONTWAIT) == 0 ? 1 : 0;
  }
  EXPECT_EQ(closed, 10u);
  std::byte got{};
  EXPECT_EQ(recv(idle.front().get(), &got, 1, MSG_DONTWAIT), 0) << "the oldest goes first";
  std::thread other([&] {
    EXPECT_TRUE(dial(listener->endpoint(), GetParam(), Rank{3}, Channel::data, "secret", soon()));
  });
  EXPECT_TRUE(listener->accept("secret", soon(), {}).has_value());
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Sockets, Handshake, ::testing::Values(true, false),
                         [](const auto& unix_socket) {
                           return std::string(unix_socket.param ? "unix" : "tcp");
                         });

TEST(Handshake, NoSecretOpensNoSocketToOtherHosts) {
  Settings settings;
  settings.address = "0.0.0.0";
  auto listener = Listener::open(settings);
  ASSERT_TRUE(listener.has_value());
  EXPECT_EQ(listener->endpoint().port, 0);
  const auto dialled = dial(listener->endpoint(), false, Rank{1}, Channel::control, "", soon());
  ASSERT_FALSE(dialled.has_value());
  EXPECT_NE(dialled.error().message.find("ENGRAM_GIN_SECRET"), std::string::npos);
}

TEST(Settings, AreReadAndRefused) {
  auto from = [](std::map<std::string, std::string> variables) {
    return read_settings([variables](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  };
  const auto some = from({{"ENGRAM_GIN_TRANSPORT", "tcp"},
                          {"ENGRAM_GIN_RING_DEPTH", "1000"},
                          {"CUDA_DEVICE_MAX_CONNECTIONS", "1"}});
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_EQ(some->transport, Transport::tcp);
  EXPECT_EQ(some->ring_depth, 1024u);
  EXPECT_FALSE(some->engine.kernels_allowed);
  for (const auto& [name, text] :
       {std::pair{"ENGRAM_GIN_TRANSPORT", "smoke"}, std::pair{"ENGRAM_GIN_WORKERS", "65"},
        std::pair{"ENGRAM_GIN_SLOTS", "x"}, std::pair{"ENGRAM_GIN_KERNELS", "yes"}}) {
    const auto refused = from({{name, text}});
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_NE(refused.error().message.find(std::string(name) + "=" + text), std::string::npos)
        << refused.error().message;
  }
}

}  // namespace
}  // namespace engram::gin_plugin
