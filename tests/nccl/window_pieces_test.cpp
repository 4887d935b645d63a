#include "engram/nccl/window_pieces.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace engram::nccl {
namespace {

using core::WindowKind;

std::vector<Rank> first_ranks(std::uint32_t n) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < n; ++r) ranks.push_back(Rank{r});
  return ranks;
}

// Pieces follow one another without a gap, on 2 MiB, hold what was asked, and every rank of the
// host sees segment i owned by the same rank.
RC_GTEST_PROP(WindowPieces, AreDenseAlignedAndTheSameOnAllRanks, ()) {
  const auto kind =
      *rc::gen::element(WindowKind::gpu, WindowKind::elastic, WindowKind::hybrid_elastic);
  const auto n = *rc::gen::inRange<std::uint32_t>(1, 9);
  const bool host = kind != WindowKind::gpu;
  const WindowShape shape{kind, Bytes{*rc::gen::inRange<std::uint64_t>(host ? 0 : 1, 1ull << 34)},
                          Bytes{host ? *rc::gen::inRange<std::uint64_t>(1, 1ull << 34) : 0}};
  const auto first = *pieces_of(shape, Rank{0}, first_ranks(n));
  for (std::uint32_t r = 0; r < n; ++r) {
    const auto pieces = *pieces_of(shape, Rank{r}, first_ranks(n));
    RC_ASSERT(pieces.size() == first.size());
    Bytes end{0};
    std::uint32_t own_host = 0, host_index = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const WindowPiece& p = pieces[i];
      RC_ASSERT(p.region.offset == end && p.region.size == first[i].region.size);
      RC_ASSERT(p.region.size.count % core::kWindowAlignment.count == 0);
      RC_ASSERT(p.region.size >= (p.on_host ? shape.segment_bytes : shape.gpu_bytes));
      end = p.region.end();
      if (!p.on_host) continue;
      own_host += !p.owner;
      if (kind == WindowKind::hybrid_elastic) {
        RC_ASSERT(p.owner.value_or(Rank{r}) == Rank{host_index});
      }
      ++host_index;
    }
    RC_ASSERT(own_host == (host ? 1u : 0u));
  }
  RC_CLASSIFY(shape.gpu_bytes == Bytes{0}, "host only");
}

TEST(WindowPieces, WrongSizesAreRefused) {
  const auto here = first_ranks(2);
  EXPECT_EQ(pieces_of({WindowKind::gpu, Bytes{0}, Bytes{0}}, Rank{0}, here).error().message,
            "a window of 0 B");
  EXPECT_FALSE(pieces_of({WindowKind::gpu, Bytes{1}, Bytes{1}}, Rank{0}, here));
  EXPECT_FALSE(pieces_of({WindowKind::elastic, Bytes{1}, Bytes{0}}, Rank{0}, here));
  EXPECT_EQ(pieces_of({WindowKind::hybrid_elastic, Bytes{0}, Bytes{1ull << 47}}, Rank{0}, here)
                .error()
                .code,
            ErrorCode::out_of_range);
}

TEST(WindowPieces, ADomainSharesItsSegmentsAndNoOther) {
  const auto host = first_ranks(6);
  EXPECT_EQ(*sharing_group(host, Rank{3}, 0), host);
  EXPECT_EQ(*sharing_group(host, Rank{3}, 2), (std::vector<Rank>{Rank{2}, Rank{3}}));
  EXPECT_EQ(*sharing_group(host, Rank{3}, 1), (std::vector<Rank>{Rank{3}}));
  const auto split = sharing_group(host, Rank{5}, 4);  // ranks 4 to 7, of which two are elsewhere
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, ErrorCode::unsupported);
  EXPECT_NE(split.error().message.find("ranks 4 to 7, but only 2"), std::string::npos)
      << split.error().message;
}

}  // namespace
}  // namespace engram::nccl
