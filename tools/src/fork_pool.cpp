#include "fork_pool.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

namespace engram::tools {
namespace {

bool write_all(int pipe, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(pipe, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string how_it_ended(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return "";
}

}  // namespace

ForkPool::~ForkPool() {
  for (const auto& child : children_) {
    ::kill(child.process, SIGKILL);
    ::close(child.pipe);
    (void)how_it_ended(child.process);
  }
}

Result<void> ForkPool::start(std::size_t id, const std::function<std::string()>& task) {
  int ends[2];
  if (::pipe(ends) != 0) return fail(ErrorCode::internal, "pipe: ", std::strerror(errno));
  const pid_t process = ::fork();
  if (process < 0) {
    const int reason = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return fail(ErrorCode::internal, "fork: ", std::strerror(reason));
  }
  if (process == 0) {
    ::close(ends[0]);
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 1;
    try {
      status = write_all(ends[1], task()) ? 0 : 1;
    } catch (const std::exception& error) {
      // The parent reports how the child ended; what it threw goes where logs go.
      (void)write_all(STDERR_FILENO, std::string("engram: ") + error.what() + "\n");
    }
    ::_exit(status);  // no destructors: they belong to the parent
  }
  ::close(ends[1]);
  children_.push_back({id, process, ends[0], {}});
  return {};
}

std::optional<ForkPool::Finished> ForkPool::wait_one(int interrupt) {
  require(!children_.empty(), "wait_one() with no child running");
  while (true) {
    std::vector<pollfd> waits;
    for (const auto& child : children_) waits.push_back({child.pipe, POLLIN, 0});
    waits.push_back({interrupt, POLLIN, 0});                   // a negative one is passed over
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // interrupted
    pollfd& last = waits.back();
    if (last.revents == 0) (void)::poll(&last, 1, 0);  // a signal to all ends children first
    if (last.revents != 0) return std::nullopt;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (waits[i].revents == 0) continue;
      char buffer[65536];
      const auto size = ::read(children_[i].pipe, buffer, sizeof buffer);
      if (size > 0) {
        children_[i].output.append(buffer, static_cast<std::size_t>(size));
      } else if (size == 0 || errno != EINTR) {
        Child child = std::move(children_[i]);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
        ::close(child.pipe);
        return Finished{child.id, std::move(child.output), how_it_ended(child.process)};
      }
    }
  }
}

}  // namespace engram::tools
