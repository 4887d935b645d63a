// Anonymous memory that processes share by passing its descriptor.
#pragma once

#include <cstddef>
#include <span>

#include "engram/core/result.hpp"
#include "engram/core/units.hpp"
#include "engram/gin_plugin/file_handle.hpp"

namespace engram::gin_plugin {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Zeroed memory of `size` bytes. Errors: io, with errno's text.
  [[nodiscard]] static Result<SharedMemory> create(Bytes size);
  /// Maps what a peer created. Errors: io, also when the file is smaller than `size`.
  [[nodiscard]] static Result<SharedMemory> map(FileHandle file, Bytes size);

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] int fd() const { return file_.get(); }

 private:
  FileHandle file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace engram::gin_plugin
