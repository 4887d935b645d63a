// Where core's waits report on a GPU: the first of a launch goes to the error record.
#pragma once

#include "engram/core/wait_error.hpp"
#include "engram/kernels/error_record_device.cuh"

namespace engram::kernels {

/// Satisfies core::WaitErrorSink; any number of lanes may report.
struct WaitRecordSink {
  ErrorSink sink;

  __device__ void report(const core::WaitError& error) const {
    ErrorRecord found;
    found.kind = error.status == core::WaitStatus::timed_out ? ErrorKind::wait_timed_out
                                                             : ErrorKind::network_failed;
    found.rank = or_none(error.rank);
    found.peer = or_none(error.peer_rank);
    found.qp = or_none(error.qp);
    found.layer = or_none(error.layer);
    found.seen = static_cast<std::int64_t>(error.seen);
    found.expected = static_cast<std::int64_t>(error.expected);
    report_error(sink, found);
  }

 private:
  [[nodiscard]] static __device__ std::int32_t or_none(std::uint32_t value) {
    return value == core::WaitError::kUnset ? -1 : static_cast<std::int32_t>(value);
  }
};

}  // namespace engram::kernels
