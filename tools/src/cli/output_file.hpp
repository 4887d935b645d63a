// Files that commands write: complete or not at all, also when the command is interrupted.
#pragma once

#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::tools {

/// A file that is written beside its place ("FILE.part") and takes it when complete. Where the
/// folder takes no new file, and for pipes and devices, the place itself is written.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();  ///< removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] std::ostream& out() { return out_; }
  /// Errors: io, naming the file; what was there before then stays.
  [[nodiscard]] Result<void> commit();
  /// Where `path` is written until it is complete.
  [[nodiscard]] static std::string unfinished(const std::string& path);

 private:
  std::string path_, part_;  // part_ empty: the place itself
  std::ofstream out_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP end the process at once with status 128 + signal, one
/// line on standard error and none of `outputs` left half written. It waits for them on a thread of
/// its own with the signals blocked in all others, since SimGrid sets a handler that exits with 1.
class Interruption {
 public:
  explicit Interruption(std::vector<std::string> outputs);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  void wait();

  std::vector<std::string> unfinished_;
  std::mutex mutex_;
  bool over_ = false;
  std::thread thread_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP are kept back, to be polled for by a command that
/// ends in good order; in its child processes as well, which that command ends.
class PolledInterrupts {
 public:
  PolledInterrupts();
  ~PolledInterrupts();
  PolledInterrupts(const PolledInterrupts&) = delete;
  PolledInterrupts& operator=(const PolledInterrupts&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }  ///< readable once there is one
  /// The signal that came. Precondition: the descriptor can be read.
  [[nodiscard]] int take();

 private:
  int descriptor_;
};

/// "SIGINT"
[[nodiscard]] std::string name_of_signal(int number);

}  // namespace engram::tools
