#include "engram/sim/fork.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace engram::sim {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int file, const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(3);  // the parent is gone
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

// The message: one byte (0 = bytes follow, 1 + code = an error's text follows).
[[noreturn]] void be_child(int file, const std::function<Result<std::string>()>& work) {
  char head = 0;
  std::string text;
  try {
    Result<std::string> result = work();
    if (result.has_value()) {
      text = std::move(*result);
    } else {
      head = static_cast<char>(1 + static_cast<int>(result.error().code));
      text = result.error().message;
    }
  } catch (const std::exception& thrown) {
    head = static_cast<char>(1 + static_cast<int>(ErrorCode::internal));
    text = std::string("the simulated run threw: ") + thrown.what();
  }
  write_all(file, &head, 1);
  write_all(file, text.data(), text.size());
  close(file);
  _exit(0);
}

// Reads to the end of the pipe; false when the deadline passed first.
bool read_all(int file, std::string& bytes, Clock::time_point deadline) {
  char buffer[65536];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{file, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready == 0) return false;
    if (ready < 0) continue;  // EINTR
    const ssize_t got = read(file, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) bytes.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<std::string> run_forked(const std::function<Result<std::string>()>& work,
                               std::chrono::milliseconds wall_limit) {
  int ends[2];
  if (pipe(ends) != 0) return fail(ErrorCode::io, "pipe for a forked run: ", strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return fail(ErrorCode::io, "fork of a simulated run: ", strerror(errno));
  if (child == 0) {
    close(ends[0]);
    be_child(ends[1], work);
  }
  close(ends[1]);
  std::string bytes;
  const bool complete = read_all(ends[0], bytes, Clock::now() + wall_limit);
  close(ends[0]);
  if (!complete) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) {
    return fail(ErrorCode::timed_out, "the forked run took longer than ", wall_limit.count(),
                " ms of wall time");
  }
  if (WIFSIGNALED(status)) {
    return fail(ErrorCode::internal, "the forked run was ended by signal ", WTERMSIG(status), " (",
                strsignal(WTERMSIG(status)), ")");
  }
  if (WEXITSTATUS(status) != 0 || bytes.empty()) {
    return fail(ErrorCode::internal, "the forked run exited with ", WEXITSTATUS(status), " after ",
                bytes.size(), " bytes of result");
  }
  const char head = bytes.front();
  bytes.erase(0, 1);
  if (head != 0) return tl::unexpected<Error>(Error{static_cast<ErrorCode>(head - 1), bytes});
  return bytes;
}

}  // namespace engram::sim
