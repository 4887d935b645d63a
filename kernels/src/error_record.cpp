#include "engram/kernels/error_record.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <new>

#include "cuda_result.hpp"

namespace engram::kernels {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::none:
      return "no error";
    case ErrorKind::index_out_of_range:
      return "index out of range";
    case ErrorKind::wait_timed_out:
      return "wait past its deadline";
    case ErrorKind::owner_unreachable:
      return "owner unreachable";
    case ErrorKind::row_kept_changing:
      return "row kept changing";
    case ErrorKind::network_failed:
      return "network operation failed";
  }
  return "unknown kind";
}

std::string describe(const ErrorRecord& record) {
  auto text = record.kind == ErrorKind::row_kept_changing
                  ? fmt::format("{}: version {} after {} attempts", name_of(record.kind),
                                record.seen, record.expected)
                  : fmt::format("{}: seen {}, expected {}{}", name_of(record.kind), record.seen,
                                record.kind == ErrorKind::index_out_of_range ? "below " : "",
                                record.expected);
  const auto add = [&text](std::string_view name, std::int64_t value) {
    if (value >= 0) text += fmt::format(", {} {}", name, value);
  };
  add("rank", record.rank);
  add("peer", record.peer);
  add("QP", record.qp);
  add("layer", record.layer);
  add("token", record.token);
  add("slot", record.slot);
  return text;
}

Error to_error(const ErrorRecord& record) {
  const auto code =
      record.kind == ErrorKind::index_out_of_range ? ErrorCode::out_of_range
      : record.kind == ErrorKind::wait_timed_out || record.kind == ErrorKind::row_kept_changing
          ? ErrorCode::timed_out
      : record.kind == ErrorKind::owner_unreachable || record.kind == ErrorKind::network_failed
          ? ErrorCode::peer_lost
          : ErrorCode::internal;
  return Error{code, describe(record)};
}

Result<ErrorRecordBox> ErrorRecordBox::create() {
  ErrorRecordBox box;
  void* memory = nullptr;
  if (auto done = check_cuda(
          cudaHostAlloc(&memory, sizeof(ErrorRecord), cudaHostAllocMapped | cudaHostAllocPortable),
          "error record");
      !done) {
    return tl::unexpected(done.error());
  }
  box.record_.reset(new (memory) ErrorRecord);
  void* claim = nullptr;
  if (auto done = check_cuda(cudaMalloc(&claim, sizeof(std::uint32_t)), "error claim"); !done) {
    return tl::unexpected(done.error());
  }
  box.claim_.reset(static_cast<std::uint32_t*>(claim));
  if (auto done = check_cuda(cudaMemset(claim, 0, sizeof(std::uint32_t)), "error claim"); !done) {
    return tl::unexpected(done.error());
  }
  return box;
}

std::optional<ErrorRecord> ErrorRecordBox::take() {
  const std::atomic_ref<std::uint32_t> state(record_->state);
  if (state.load(std::memory_order_acquire) != ErrorRecord::kWritten) return std::nullopt;
  const ErrorRecord copy = *record_;
  *record_ = ErrorRecord{};
  const std::uint32_t unclaimed = 0;
  const auto done = check_cuda(
      cudaMemcpy(claim_.get(), &unclaimed, sizeof(unclaimed), cudaMemcpyHostToDevice), "claim");
  require(done.has_value(), "the claim of an error record lies in memory of a live GPU");
  return copy;
}

void ErrorRecordBox::Free::operator()(ErrorRecord* record) const { cudaFreeHost(record); }
void ErrorRecordBox::Free::operator()(std::uint32_t* claim) const { cudaFree(claim); }

}  // namespace engram::kernels
