#include "engram/kernels/error_record.hpp"

#include <gtest/gtest.h>

namespace engram::kernels {
namespace {

TEST(ErrorRecord, SaysWhichIndexOfWhichTokenIsOutOfRange) {
  ErrorRecord record;
  record.kind = ErrorKind::index_out_of_range;
  record.rank = 3;
  record.layer = 1;
  record.token = 17;
  record.slot = 5;
  record.seen = 900;
  record.expected = 800;
  EXPECT_EQ(describe(record),
            "index out of range: seen 900, expected below 800, rank 3, layer 1, token 17, slot 5");
  EXPECT_EQ(to_error(record).code, ErrorCode::out_of_range);
}

TEST(ErrorRecord, SaysWhatAWaitMissed) {
  ErrorRecord record;
  record.kind = ErrorKind::wait_timed_out;
  record.rank = 0;
  record.peer = 1;
  record.qp = 7;
  record.seen = 11;
  record.expected = 12;
  EXPECT_EQ(describe(record), "wait past its deadline: seen 11, expected 12, rank 0, peer 1, QP 7");
  EXPECT_EQ(to_error(record).code, ErrorCode::timed_out);
}

TEST(ErrorRecord, SaysWhichRowKeptChanging) {
  ErrorRecord record;
  record.kind = ErrorKind::row_kept_changing;
  record.rank = 1;
  record.layer = 0;
  record.slot = 9;
  record.seen = 41;
  record.expected = 256;
  EXPECT_EQ(describe(record),
            "row kept changing: version 41 after 256 attempts, rank 1, layer 0, slot 9");
  EXPECT_EQ(to_error(record).code, ErrorCode::timed_out);
}

}  // namespace
}  // namespace engram::kernels
