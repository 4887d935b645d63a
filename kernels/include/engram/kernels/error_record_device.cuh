// Device side of error_record.hpp.
#pragma once

#include "engram/kernels/error_record.hpp"

namespace engram::kernels {

/// Writes `found` if no other thread has written before. Nothing happens with a null sink.
__device__ inline void report_error(const ErrorSink& sink, const ErrorRecord& found) {
  if (sink.record == nullptr || atomicExch(sink.claim, 1u) != 0) return;
  ErrorRecord& record = *sink.record;
  record.kind = found.kind;
  record.rank = found.rank;
  record.peer = found.peer;
  record.qp = found.qp;
  record.layer = found.layer;
  record.token = found.token;
  record.slot = found.slot;
  record.seen = found.seen;
  record.expected = found.expected;
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(&record.state) = ErrorRecord::kWritten;
}

}  // namespace engram::kernels
