// What a kernel leaves behind when it cannot go on: one record in mapped host memory, no trap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engram/core/result.hpp"

namespace engram::kernels {

enum class ErrorKind : std::uint32_t {
  none = 0,
  index_out_of_range = 1,  ///< seen = the index, expected = rows of the layer
  wait_timed_out = 2,      ///< seen, expected = the awaited counter or flag
  owner_unreachable = 3,   ///< seen = the owner
  network_failed = 4,      ///< an operation ended in an error; seen, expected as a wait's
  row_kept_changing = 5,   ///< slot = the read, seen = its version, expected = attempts made
};

[[nodiscard]] std::string_view name_of(ErrorKind kind);

/// The first error wins, later ones are dropped. Written by device code through
/// error_record_device.cuh; read by the host once `state` is kWritten. -1 = does not apply.
struct alignas(64) ErrorRecord {
  static constexpr std::uint32_t kEmpty = 0, kWritten = 1;
  std::uint32_t state = kEmpty;
  ErrorKind kind = ErrorKind::none;
  std::int32_t rank = -1;  ///< who found it
  std::int32_t peer = -1;  ///< the far end
  std::int32_t qp = -1;
  std::int32_t layer = -1;
  std::int64_t token = -1;
  std::int64_t slot = -1;  ///< entry within the token
  std::int64_t seen = 0;
  std::int64_t expected = 0;
};

/// The record in one line, naming what applies.
[[nodiscard]] std::string describe(const ErrorRecord& record);
/// out_of_range, timed_out or peer_lost, with describe()'s text.
[[nodiscard]] Error to_error(const ErrorRecord& record);

/// Where kernels of one GPU report; part of their arguments. Null: nothing is reported.
struct ErrorSink {
  ErrorRecord* record = nullptr;   ///< mapped host memory
  std::uint32_t* claim = nullptr;  ///< GPU memory: 0 until a thread has taken the record. Host
                                   ///< memory knows no atomics over PCIe
};

/// Owns one record and its claim, for the GPU that is current at create().
class ErrorRecordBox {
 public:
  /// Errors: internal, with CUDA's text.
  [[nodiscard]] static Result<ErrorRecordBox> create();
  [[nodiscard]] ErrorSink sink() const { return {record_.get(), claim_.get()}; }
  /// The record if one is complete; empties the box. Call when no kernel that writes it runs.
  [[nodiscard]] std::optional<ErrorRecord> take();

 private:
  struct Free {
    void operator()(ErrorRecord* record) const;
    void operator()(std::uint32_t* claim) const;
  };
  ErrorRecordBox() = default;
  std::unique_ptr<ErrorRecord, Free> record_;
  std::unique_ptr<std::uint32_t, Free> claim_;
};

}  // namespace engram::kernels
