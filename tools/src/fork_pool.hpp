// Runs tasks in child processes, a few at a time. Needed where a task may run once a process only
// (SimGrid's clock is global), and so that a crash costs one task.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engram/core/result.hpp"

namespace engram::tools {

class ForkPool {
 public:
  ForkPool() = default;
  ForkPool(const ForkPool&) = delete;
  ForkPool& operator=(const ForkPool&) = delete;
  /// Ends children that still run.
  ~ForkPool();

  struct Finished {
    std::size_t id = 0;
    std::string output;   ///< what the task returned
    std::string failure;  ///< "ended by signal 11"; empty where the task returned
  };

  /// Starts `task` in a child, which ends with this process at the latest. Flush streams before.
  /// Errors: internal, when no process is left.
  [[nodiscard]] Result<void> start(std::size_t id, const std::function<std::string()>& task);
  /// Waits for the next child to end. None: `interrupt`, a file descriptor, can be read; children
  /// that end at the same time, by the same signal perhaps, are then not told of. Precondition:
  /// running() > 0.
  [[nodiscard]] std::optional<Finished> wait_one(int interrupt = -1);
  [[nodiscard]] std::size_t running() const { return children_.size(); }

 private:
  struct Child {
    std::size_t id;
    pid_t process;
    int pipe;
    std::string output;
  };
  std::vector<Child> children_;
};

}  // namespace engram::tools
