#include "engram/rendezvous/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "engram/rendezvous/identity.hpp"
#include "engram/rendezvous/listener.hpp"
#include "engram/rendezvous/secret.hpp"

namespace engram::rendezvous {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// A line longer than this is passed on in pieces.
constexpr std::size_t kMaxLine = 64 * 1024;
/// Output that a rank's own children still write after the rank has ended is read this long.
constexpr Nanos kDrainLimit = std::chrono::milliseconds(500);

/// Else errno says why.
bool is_program(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    return false;
  }
  return ::access(path.c_str(), X_OK) == 0;
}

/// Where SIGHUP is ignored, as below nohup, it stays so.
bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

Result<std::string> find_program(const std::string& name,
                                 const std::vector<std::string>& environment) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    return fail(ErrorCode::not_found, "cannot execute ", name, ": ", std::strerror(errno));
  }
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& entry : environment) {
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && is_program(candidate)) return candidate;
    begin = end + 1;
  }
  return fail(ErrorCode::not_found, name, " is not on PATH=", path);
}

/// Reads one pipe of one rank and cuts it into lines.
class LineReader : public std::enable_shared_from_this<LineReader> {
 public:
  LineReader(asio::io_context& io, FileDescriptor pipe, Rank rank, bool to_stderr,
             const OutputSink& sink)
      : pipe_(io, pipe.release()), rank_(rank), to_stderr_(to_stderr), sink_(sink) {}

  void read() {
    pipe_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](error_code error, std::size_t size) {
                            self->take(std::string_view(self->chunk_.data(), size));
                            if (!error) return self->read();
                            if (!self->partial_.empty())
                              self->give(std::exchange(self->partial_, {}));
                            self->closed_ = true;
                          });
  }
  [[nodiscard]] bool closed() const { return closed_; }
  void cancel() {
    error_code ignored;
    pipe_.cancel(ignored);
  }

 private:
  void take(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      partial_.append(text.substr(0, end));
      text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
      if (end != std::string_view::npos || partial_.size() >= kMaxLine) {
        give(std::exchange(partial_, {}));
      }
    }
  }
  void give(const std::string& line) {
    if (sink_) sink_(rank_, to_stderr_, line);
  }

  asio::posix::stream_descriptor pipe_;
  Rank rank_;
  bool to_stderr_;
  const OutputSink& sink_;
  std::array<char, 16 * 1024> chunk_{};
  std::string partial_;
  bool closed_ = false;
};

class Job {
 public:
  explicit Job(const LaunchOptions& options) : options_(options) {
    outcome_.ranks.resize(options.num_ranks);
    // Before the first rank starts: a signal must find them all or none.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      if (!is_ignored(signal)) signals_.add(signal);
    }
  }
  ~Job() {
    for (const Process& p : processes_) {
      if (p.running) ::kill(-p.pid, SIGKILL);
      if (p.running) ::waitpid(p.pid, nullptr, 0);
    }
  }

  [[nodiscard]] Result<LaunchOutcome> run() {
    auto program = find_program(options_.argv.front(), options_.environment);
    if (!program) return tl::unexpected<Error>(program.error());
    auto listener = listen_on_loopback();
    if (!listener) return tl::unexpected<Error>(listener.error());
    const std::string job = "local-" + random_secret();
    const std::string secret = random_secret();
    for (std::uint32_t r = 0; r < options_.num_ranks; ++r) {
      const auto started = start(Rank{r}, *program, *listener, job, secret);
      if (!started) return tl::unexpected<Error>(started.error());
    }
    listener->socket = FileDescriptor();  // rank 0's copy alone keeps the port
    watch_signals();
    if (options_.limit) {
      limit_.expires_after(*options_.limit);
      limit_.async_wait([this](error_code error) {
        if (error) return;
        end_all(124, fmt::format("ranks {} still ran after the limit of {} s", running_list(),
                                 std::chrono::duration<double>(*options_.limit).count()));
      });
    }
    io_.run();
    return std::move(outcome_);
  }

 private:
  struct Process {
    pid_t pid = -1;
    bool running = false;
    std::unique_ptr<asio::posix::stream_descriptor> watch;  ///< a pidfd: readable once it ended
  };

  [[nodiscard]] std::vector<std::string> environment_of(Rank rank, const Listener& listener,
                                                        int inherited_fd, const std::string& job,
                                                        const std::string& secret) const {
    std::vector<std::string> all;
    for (const auto& entry : options_.environment) {
      // An outer job's identity must not reach the ranks of this one.
      bool own = false;
      for (const auto name :
           {variable::kRank, variable::kNumRanks, variable::kLocalRank, variable::kNumLocalRanks,
            variable::kAddress, variable::kJobId, variable::kSecret, variable::kListenFd}) {
        own = own || entry.starts_with(std::string(name) + "=");
      }
      if (!own) all.push_back(entry);
    }
    const auto set = [&all](std::string_view name, const auto& value) {
      all.push_back(fmt::format("{}={}", name, value));
    };
    set(variable::kRank, rank.value);
    set(variable::kNumRanks, options_.num_ranks);
    set(variable::kLocalRank, rank.value);
    set(variable::kNumLocalRanks, options_.num_ranks);
    set(variable::kAddress, fmt::format("127.0.0.1:{}", listener.port));
    set(variable::kJobId, job);
    set(variable::kSecret, secret);
    if (rank == Rank{0}) set(variable::kListenFd, inherited_fd);
    return all;
  }

  [[nodiscard]] Result<void> start(Rank rank, const std::string& program, const Listener& listener,
                                   const std::string& job, const std::string& secret) {
    std::array<int, 2> out{-1, -1}, err{-1, -1}, exec{-1, -1};
    if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0 ||
        ::pipe2(exec.data(), O_CLOEXEC) != 0) {
      return fail(ErrorCode::io, "pipe for rank ", rank.value, ": ", std::strerror(errno));
    }
    FileDescriptor out_read(out[0]), out_write(out[1]), err_read(err[0]), err_write(err[1]);
    FileDescriptor exec_read(exec[0]), exec_write(exec[1]);  // errno of a failed execve
    const int listen_fd = listener.socket.get();
    std::vector<std::string> environment = environment_of(rank, listener, listen_fd, job, secret);
    std::vector<std::string> arguments = options_.argv;
    std::vector<char*> envp, argv;
    for (auto& text : environment) envp.push_back(text.data());
    for (auto& text : arguments) argv.push_back(text.data());
    envp.push_back(nullptr);
    argv.push_back(nullptr);

    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {  // only async-signal-safe calls from here on
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      ::dup2(out_write.get(), STDOUT_FILENO);
      ::dup2(err_write.get(), STDERR_FILENO);
      if (rank == Rank{0}) ::fcntl(listen_fd, F_SETFD, 0);
      ::execve(program.c_str(), argv.data(), envp.data());
      const int why = errno;
      [[maybe_unused]] const auto n = ::write(exec_write.get(), &why, sizeof(why));
      ::_exit(126);
    }
    if (pid < 0)
      return fail(ErrorCode::io, "fork of rank ", rank.value, ": ", std::strerror(errno));
    ::setpgid(pid, pid);  // both sides set it: whoever comes first
    processes_.push_back(Process{pid, true, nullptr});
    exec_write = FileDescriptor();
    int why = 0;
    ssize_t got = 0;
    while ((got = ::read(exec_read.get(), &why, sizeof(why))) < 0 && errno == EINTR) continue;
    if (got == sizeof(why)) {
      return fail(ErrorCode::io, "cannot execute ", program, " as rank ", rank.value, ": ",
                  std::strerror(why));
    }
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u));
    if (pidfd < 0)
      return fail(ErrorCode::io, "pidfd_open of rank ", rank.value, ": ", std::strerror(errno));
    processes_.back().watch = std::make_unique<asio::posix::stream_descriptor>(io_, pidfd);
    processes_.back().watch->async_wait(asio::posix::stream_descriptor::wait_read,
                                        [this, rank](error_code error) {
                                          if (!error) on_end(rank);
                                        });
    for (auto* pipe : {&out_read, &err_read}) {
      readers_.push_back(std::make_shared<LineReader>(io_, std::move(*pipe), rank,
                                                      pipe == &err_read, options_.sink));
      readers_.back()->read();
    }
    return {};
  }

  void on_end(Rank rank) {
    Process& process = processes_[rank.value];
    // What the rank's own children left behind ends with it. Before waitpid: until then the number
    // is surely still this rank's group.
    ::kill(-process.pid, SIGKILL);
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    process.running = false;
    RankExit& exit = outcome_.ranks[rank.value];
    exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    exit.ended_by_us = ending_;
    if (exit.code != 0 && !ending_) {
      outcome_.first_failed = rank;
      end_all(exit.code, WIFEXITED(status)
                             ? fmt::format("rank {} ended with status {}", rank.value, exit.code)
                             : fmt::format("rank {} was killed by signal {} ({})", rank.value,
                                           WTERMSIG(status), ::strsignal(WTERMSIG(status))));
    }
    ++num_ended_;
    if (num_ended_ == options_.num_ranks) finish();
  }

  /// The first signal ends the ranks with a grace, the next one at once.
  void watch_signals() {
    signals_.async_wait([this](error_code error, int signal) {
      if (error) return;
      if (ending_) return kill_all();
      end_all(128 + signal, fmt::format("ended by signal {} to the launcher", signal));
      watch_signals();
    });
  }

  void kill_all() {
    for (const Process& p : processes_) {
      if (p.running) ::kill(-p.pid, SIGKILL);
    }
  }

  void end_all(int exit_status, std::string why) {
    if (ending_) return;
    ending_ = true;
    outcome_.exit_status = exit_status;
    outcome_.explanation = std::move(why);
    for (const Process& p : processes_) {
      if (p.running) ::kill(-p.pid, SIGTERM);
    }
    grace_.expires_after(options_.kill_grace);
    grace_.async_wait([this](error_code error) {
      if (!error) kill_all();
    });
  }

  void finish() {
    error_code ignored;
    signals_.cancel(ignored);
    limit_.cancel();
    grace_.cancel();
    grace_.expires_after(kDrainLimit);
    grace_.async_wait([this](error_code error) {
      if (error) return;
      for (const auto& reader : readers_) reader->cancel();
    });
    poll_drained();
  }
  void poll_drained() {
    for (const auto& reader : readers_) {
      if (!reader->closed()) {
        drain_.expires_after(std::chrono::milliseconds(5));
        drain_.async_wait([this](error_code) { poll_drained(); });
        return;
      }
    }
    grace_.cancel();
  }
  [[nodiscard]] std::string running_list() const {
    std::string list;
    for (std::size_t r = 0; r < processes_.size(); ++r) {
      if (processes_[r].running) list += (list.empty() ? "" : ", ") + std::to_string(r);
    }
    return list;
  }

  const LaunchOptions& options_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::steady_timer grace_{io_}, limit_{io_}, drain_{io_};
  std::vector<Process> processes_;  ///< by rank
  std::vector<std::shared_ptr<LineReader>> readers_;
  std::uint32_t num_ended_ = 0;
  bool ending_ = false;
  LaunchOutcome outcome_;
};

}  // namespace

Result<LaunchOutcome> launch_local(const LaunchOptions& options) {
  if (options.num_ranks == 0 || options.num_ranks > 4096 || options.argv.empty()) {
    return fail(ErrorCode::invalid_argument, options.num_ranks, " ranks (1 to 4096) of a program ",
                "with ", options.argv.size(), " words (at least 1)");
  }
  return Job(options).run();
}

}  // namespace engram::rendezvous
