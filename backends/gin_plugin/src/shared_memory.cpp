#include "engram/gin_plugin/shared_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace engram::gin_plugin {

void FileHandle::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<SharedMemory> SharedMemory::create(Bytes size) {
  FileHandle file(memfd_create("engram-gin", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(size.count)) != 0) {
    return fail(ErrorCode::io, "shared memory of ", size.count, " bytes: ", std::strerror(errno));
  }
  return map(std::move(file), size);
}

Result<SharedMemory> SharedMemory::map(FileHandle file, Bytes size) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0) {
    return fail(ErrorCode::io, "shared memory: ", std::strerror(errno));
  }
  if (static_cast<std::uint64_t>(info.st_size) < size.count) {
    return fail(ErrorCode::io, "shared memory has ", info.st_size, " bytes, ", size.count,
                " expected");
  }
  void* data =
      mmap(nullptr, size.count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::io, "mapping ", size.count, " shared bytes: ", std::strerror(errno));
  }
  SharedMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_ = size.count;
  return memory;
}

}  // namespace engram::gin_plugin
