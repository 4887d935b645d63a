#include "output_file.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <filesystem>

namespace engram::tools {
namespace {

namespace fs = std::filesystem;

/// The file a link leads to: the link stays, its end is replaced.
fs::path place_of(const std::string& path) {
  std::error_code none;
  const fs::path end = fs::canonical(path, none);
  return none ? fs::path(path) : end;
}

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

std::string OutputFile::unfinished(const std::string& path) {
  return place_of(path).string() + ".part";
}

OutputFile::OutputFile(const std::string& path) : path_(place_of(path).string()) {
  std::error_code none;
  const auto there = fs::status(path_, none);
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    part_ = unfinished(path);
    out_.open(part_, std::ios::binary | std::ios::trunc);
    if (out_ && fs::exists(there)) fs::permissions(part_, there.permissions(), none);
  }
  if (!out_.is_open()) {
    part_.clear();
    out_.clear();
    out_.open(path_, std::ios::binary | std::ios::trunc);
  }
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove(part_, ignored);
}

Result<void> OutputFile::commit() {
  out_.close();
  if (!out_) return fail(ErrorCode::io, path_, ": cannot be written");
  if (part_.empty()) return {};
  std::error_code wrong;
  fs::rename(part_, path_, wrong);
  if (wrong) return fail(ErrorCode::io, path_, ": cannot be replaced: ", wrong.message());
  part_.clear();
  return {};
}

Interruption::Interruption(std::vector<std::string> outputs) {
  for (const std::string& path : outputs) {
    if (!path.empty() && path != "-") unfinished_.push_back(OutputFile::unfinished(path));
  }
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

Interruption::~Interruption() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGINT);  // wakes it
  thread_.join();
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interruption::wait() {
  const sigset_t set = interrupts();
  int number = 0;
  if (sigwait(&set, &number) != 0) return;
  const std::lock_guard lock(mutex_);
  if (over_) return;
  std::error_code ignored;
  for (const std::string& path : unfinished_) fs::remove(path, ignored);
  const std::string line =
      fmt::format("engram: interrupted by {}{}\n", name_of_signal(number),
                  unfinished_.empty() ? "" : "; unfinished files were not kept");
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(128 + number);  // no destructors: other threads still run
}

PolledInterrupts::PolledInterrupts() {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  require(descriptor_ >= 0, "a signalfd");
}

PolledInterrupts::~PolledInterrupts() {
  ::close(descriptor_);
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int PolledInterrupts::take() {
  signalfd_siginfo info{};
  require(::read(descriptor_, &info, sizeof info) == sizeof info, "a signal was told");
  return static_cast<int>(info.ssi_signo);
}

std::string name_of_signal(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

}  // namespace engram::tools
