// Device side of error_record.hpp.
#pragma once

#include "engram/kernels/error_record.hpp"

namespace engram::kernels {

/// Writes `found` if the record is still empty. `record` may be null: then nothing happens.
__device__ inline void report_error(ErrorRecord* record, const ErrorRecord& found) {
  if (record == nullptr) return;
  if (atomicCAS_system(&record->state, ErrorRecord::kEmpty, ErrorRecord::kClaimed) !=
      ErrorRecord::kEmpty) {
    return;
  }
  record->kind = found.kind;
  record->rank = found.rank;
  record->peer = found.peer;
  record->qp = found.qp;
  record->layer = found.layer;
  record->token = found.token;
  record->slot = found.slot;
  record->seen = found.seen;
  record->expected = found.expected;
  __threadfence_system();
  atomicExch_system(&record->state, ErrorRecord::kWritten);
}

}  // namespace engram::kernels
