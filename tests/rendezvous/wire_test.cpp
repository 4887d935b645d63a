#include "wire.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace engram::rendezvous {
namespace {

RC_GTEST_PROP(Wire, HelloComesBack, ()) {
  const Hello hello{Rank{*rc::gen::arbitrary<std::uint32_t>()},
                    *rc::gen::arbitrary<std::uint32_t>(), *rc::gen::string<std::string>(),
                    *rc::gen::string<std::string>(), *rc::gen::string<std::string>()};
  const auto back = decode_hello(encode_hello(hello));
  RC_ASSERT(back.has_value());
  RC_ASSERT(back->rank == hello.rank && back->num_ranks == hello.num_ranks);
  RC_ASSERT(back->job_id == hello.job_id && back->secret == hello.secret);
  RC_ASSERT(back->host == hello.host);
}

// Any cut of a right hello, and any bytes at all, are refused or read, never more.
RC_GTEST_PROP(Wire, BrokenBodiesAreRefused, ()) {
  Body body = encode_hello(Hello{Rank{1}, 2, *rc::gen::string<std::string>(), "s", "h"});
  const auto keep = *rc::gen::inRange<std::size_t>(0, body.size());
  body.resize(keep);
  RC_ASSERT(!decode_hello(body).has_value());
  const auto noise =
      *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
  const auto bytes = std::as_bytes(std::span(noise));
  RC_ASSERT(!decode_error(bytes).message.empty() || !noise.empty());
}

TEST(Wire, ABlockThatClaimsMoreThanIsThereIsRefused) {
  Writer out;
  out.number(~0ull, 8);
  const Body body = out.take();
  const auto got = Reader(body).bytes();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "a block of 18446744073709551615 bytes where 0 are left");
}

TEST(Wire, HeadersAreChecked) {
  const auto header = [](const Body& frame, Bytes limit) {
    return decode(std::span(frame).first<kHeaderBytes>(), limit);
  };
  const Body good = encode(FrameKind::barrier, 7, Body(10));
  ASSERT_TRUE(header(good, Bytes{10}));
  EXPECT_EQ(header(good, Bytes{10})->sequence, 7u);
  EXPECT_EQ(header(good, Bytes{9}).error().message, "barrier of 10 bytes, at most 9");
  Body other = good;
  other[0] = std::byte{'G'};
  EXPECT_EQ(header(other, Bytes{10}).error().code, ErrorCode::invalid_argument);
  other = good;
  other[4] = std::byte{9};
  EXPECT_EQ(header(other, Bytes{10}).error().message, "rendezvous protocol 9, this build has 1");
  other = good;
  other[6] = std::byte{99};
  EXPECT_EQ(header(other, Bytes{10}).error().message, "frame of unknown kind 99");
}

}  // namespace
}  // namespace engram::rendezvous
