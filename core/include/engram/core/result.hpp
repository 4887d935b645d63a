// How failures travel: what the world can cause is a Result, what only a bug can cause is
// require().
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <source_location>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace engram {

enum class ErrorCode {
  invalid_argument,  ///< the caller's numbers or names are refused
  out_of_range,      ///< an index, an offset or a size past its end
  timed_out,         ///< a deadline passed; names what was missing
  deadlock,          ///< nothing can move any more; names who waits for what
  peer_lost,         ///< a rank, a link or a NIC failed
  unsupported,       ///< this machine or backend cannot
  io,                ///< a file or a socket
  wrong_bytes,       ///< a check found other bytes than expected
  not_found,         ///< a file, a key or a device that is not there
  internal,          ///< a library below failed in an unexpected way
};

[[nodiscard]] std::string_view name_of(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  friend bool operator==(const Error&, const Error&) = default;
};

/// `tl::expected` until nvcc takes C++23's std::expected.
template <class T>
using Result = tl::expected<T, Error>;

namespace detail {
/// `count` arguments written one after another. Not a template: with it in every file that can
/// fail, a formatter of its own was most of the time that the file took to compile.
[[nodiscard]] std::string concatenate(std::size_t count, fmt::format_args parts);
}  // namespace detail

/// An error whose text is the parts written one after another.
template <class... Parts>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, const Parts&... parts) {
  return tl::unexpected<Error>(
      Error{code, detail::concatenate(sizeof...(parts), fmt::make_format_args(parts...))});
}

/// Passes an error on, with where it happened in front.
template <class... Parts>
[[nodiscard]] tl::unexpected<Error> within(Error error, const Parts&... parts) {
  error.message =
      detail::concatenate(sizeof...(parts), fmt::make_format_args(parts...)) + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

/// Stops the program, in every build, when `condition` is false: a bug, not an input.
void require(bool condition, std::string_view why,
             std::source_location where = std::source_location::current());

}  // namespace engram
