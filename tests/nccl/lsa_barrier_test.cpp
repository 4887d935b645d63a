#include "engram/nccl/lsa_barrier.hpp"

#include <gtest/gtest.h>

namespace engram::nccl {
namespace {

TEST(LsaBarrier, TheRecordNamesTheRanksOfTheWorld) {
  LsaBarrierError error;
  error.epoch = 7;
  error.seen = 2;
  error.expected = 4;
  error.missing[0] = 0b1010;
  const core::RankGrid grid{2, 4, core::Mode::hybrid};
  EXPECT_EQ(describe(error, grid, Rank{4}),
            "barrier 7 of rank 4: word is 2, expected 4; ranks 5, 7 not seen");
  error.missing[0] = 0b1;
  EXPECT_EQ(describe(error, grid, Rank{1}),
            "barrier 7 of rank 1: word is 2, expected 4; rank 0 not seen");
}

TEST(LsaBarrier, TheStateFitsBehindTheProtocolsWords) {
  EXPECT_GE(LsaBarrier::kOffset.count, 64u);
  EXPECT_LE(LsaBarrier::kOffset.count + sizeof(LsaBarrierState), core::kWorkspaceBytes.count);
}

}  // namespace
}  // namespace engram::nccl
