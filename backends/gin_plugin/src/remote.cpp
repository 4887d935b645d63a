#include "remote.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "links.hpp"
#include "remote_job.hpp"
#include "staging.hpp"

namespace engram::gin_plugin {
namespace {

constexpr std::size_t kMostRequests = 32;  ///< under way to one owner
constexpr auto kSpin = std::chrono::microseconds(200);

/// What a request still needs once its answer is here.
struct Request {
  std::vector<RemoteCopy> copies;  ///< a read's targets
  TicketPtr ticket;
};

struct Owner {
  Rank rank;
  // Guarded by the Remote's mutex.
  std::deque<Job> jobs;
  std::deque<Incoming> received;
  bool closed = false;
  // The executor's.
  std::map<std::uint64_t, Request> requests;
};

class RemoteImpl final : public Remote {
 public:
  RemoteImpl(Device& device, Regions& regions, Rank self, ApplySignal apply_signal,
             std::function<void(Error)> on_error)
      : device_(device),
        regions_(regions),
        self_(self),
        apply_signal_(std::move(apply_signal)),
        on_error_(std::move(on_error)) {}
  ~RemoteImpl() override;

  Result<void> set_up(Mesh& mesh);

  void read(Rank owner, std::vector<RemoteCopy> copies, const TicketPtr& ticket) override {
    post_copies(owner, MessageKind::read, std::move(copies), ticket);
  }
  void write(Rank owner, std::vector<RemoteCopy> copies, const TicketPtr& ticket) override {
    post_copies(owner, MessageKind::write, std::move(copies), ticket);
  }
  void add(Rank owner, RegionId region, std::uint64_t offset, std::uint64_t value,
           const TicketPtr& ticket) override {
    ticket->open.fetch_add(1);
    Job job;
    job.kind = MessageKind::add;
    job.add = {offset, value, region, {0, 0, 0}};
    job.ticket = ticket;
    post(owner, std::move(job));
  }
  void quiesce(Nanos limit) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = ++rounds_asked_;
    woken_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, limit, [&] { return rounds_done_ >= mine; });
  }
  void signal(Rank owner, const RemoteSignal& signal) override {
    Job job;
    job.kind = MessageKind::signal;
    job.signal = signal;
    post(owner, std::move(job));
  }

 private:
  void post_copies(Rank owner, MessageKind kind, std::vector<RemoteCopy> copies,
                   const TicketPtr& ticket);
  void post(Rank owner, Job job);
  void wake();
  void fail_once(Error error);

  // The executor.
  void execute();
  bool serve(Owner& owner);
  bool start_job(Owner& owner, Job& job);
  Result<bool> handle(Owner& owner, Incoming& message);
  Result<bool> answer_read(Owner& owner, const Incoming& message);
  void acknowledge(Owner& owner, const Incoming& message);
  Result<void> finish(Owner& owner, const Incoming& message);

  Device& device_;
  Regions& regions_;
  Rank self_;
  ApplySignal apply_signal_;
  std::function<void(Error)> on_error_;
  std::unique_ptr<Staging> staging_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::unique_ptr<Links> links_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> woken_{false};  ///< set under mutex_
  std::uint64_t rounds_asked_ = 0;  ///< guarded by mutex_, as rounds_done_
  std::uint64_t rounds_done_ = 0;
  bool stop_ = false;
  std::atomic<bool> failed_{false};
  std::uint64_t next_request_ = 1;
  std::thread executor_;
};

Result<void> RemoteImpl::set_up(Mesh& mesh) {
  auto staging = Staging::create(device_, regions_, self_);
  if (!staging) return tl::unexpected(staging.error());
  staging_ = std::move(*staging);
  for (std::uint32_t r = 0; r < mesh.num_ranks(); ++r) {
    owners_.push_back(std::make_unique<Owner>());
    owners_.back()->rank = Rank{r};
  }
  auto links = Links::create(device_, mesh,
                             {[this](Rank from, Incoming message) {
                                {
                                  const std::lock_guard lock(mutex_);
                                  owners_[from.value]->received.push_back(std::move(message));
                                }
                                wake();
                              },
                              [this] { wake(); },
                              [this](Rank from) {
                                {
                                  const std::lock_guard lock(mutex_);
                                  owners_[from.value]->closed = true;
                                }
                                wake();
                              },
                              [this](Error error) { fail_once(std::move(error)); }});
  if (!links) return tl::unexpected(links.error());
  links_ = std::move(*links);
  executor_ = std::thread([this] { execute(); });
  return {};
}

RemoteImpl::~RemoteImpl() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    woken_ = true;
  }
  changed_.notify_all();
  if (executor_.joinable()) executor_.join();
  links_.reset();
}

void RemoteImpl::fail_once(Error error) {
  if (failed_.exchange(true)) return;
  on_error_(std::move(error));
}

void RemoteImpl::post_copies(Rank owner, MessageKind kind, std::vector<RemoteCopy> copies,
                             const TicketPtr& ticket) {
  std::vector<Job> jobs = cut(kind, std::move(copies), ticket);
  ticket->open.fetch_add(static_cast<std::uint32_t>(jobs.size()));
  for (Job& job : jobs) post(owner, std::move(job));
}

void RemoteImpl::post(Rank owner, Job job) {
  {
    const std::lock_guard lock(mutex_);
    owners_[owner.value]->jobs.push_back(std::move(job));
  }
  wake();
}

void RemoteImpl::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void RemoteImpl::execute() {
  if (auto ok = device_.attach_thread(); !ok) fail_once(ok.error());
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (rounds_done_ != rounds_asked_) {
        rounds_done_ = rounds_asked_;
        changed_.notify_all();
      }
    }
    bool busy = false;
    for (auto& owner : owners_) busy |= serve(*owner);
    if (busy) continue;
    // Sleeping and waking cost more than a small message's whole way.
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (!woken_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return woken_.load(); });
    woken_ = false;
    if (stop_) return;
  }
}

/// One step for a link: an answer or request that came in, and a job to go out.
bool RemoteImpl::serve(Owner& owner) {
  std::optional<Incoming> message;
  std::optional<Job> job;
  bool deserted = false;
  {
    const std::lock_guard lock(mutex_);
    if (!owner.received.empty()) {
      message = std::move(owner.received.front());
      owner.received.pop_front();
    }
    if (!owner.jobs.empty() && owner.requests.size() < kMostRequests) {
      job = std::move(owner.jobs.front());
      owner.jobs.pop_front();
    }
    deserted = owner.closed && !message && (job || !owner.jobs.empty() || !owner.requests.empty());
  }
  if (deserted) {
    fail_once({ErrorCode::peer_lost,
               fmt::format("rank {} left while rank {} still had {} requests to it",
                           owner.rank.value, self_.value, owner.requests.size() + (job ? 1 : 0))});
    return false;
  }
  bool busy = false;
  if (message) {
    auto done = handle(owner, *message);
    if (!done) {
      fail_once(within(done.error(), "rank ", self_.value, ", message of rank ", owner.rank.value)
                    .value());
    }
    if (done && !*done) {
      const std::lock_guard lock(mutex_);
      owner.received.push_front(std::move(*message));  // no buffer for its answer yet
    } else {
      links_->release(*message);
      busy = true;
    }
  }
  if (job) {
    if (start_job(owner, *job)) {
      busy = true;
    } else {
      const std::lock_guard lock(mutex_);
      owner.jobs.push_front(std::move(*job));
    }
  }
  return busy;
}

/// False: no buffer is free; later again.
bool RemoteImpl::start_job(Owner& owner, Job& job) {
  Outgoing message = message_for(job);
  if (job.kind == MessageKind::write) {
    message.buffer = links_->outbound().take();
    if (message.buffer == nullptr) return false;
    std::vector<Copy> gather;
    for (const RemoteCopy& copy : job.copies) {
      gather.push_back(
          {copy.local, message.buffer + message.head.payload, copy.size, 0, copy.value});
      message.head.payload += copy.size;
    }
    if (auto ok = staging_->run(gather); !ok) fail_once(ok.error());
  }
  if (job.ticket) {
    message.head.request = next_request_++;
    owner.requests[message.head.request] = {std::move(job.copies), std::move(job.ticket)};
  }
  links_->send(owner.rank, std::move(message));
  return true;
}

/// False: no buffer for the answer; later again.
Result<bool> RemoteImpl::handle(Owner& owner, Incoming& message) {
  switch (message.head.kind) {
    case MessageKind::read:
      return answer_read(owner, message);
    case MessageKind::write: {
      auto entries = read_entries(message.head, message.entries);
      if (!entries) return tl::unexpected(entries.error());
      auto ok = staging_->scatter(*entries, message.buffer);
      if (!ok) return tl::unexpected(ok.error());
      acknowledge(owner, message);
      return true;
    }
    case MessageKind::add: {
      AddEntry entry;
      std::memcpy(&entry, message.entries.data(), sizeof entry);
      auto ok = staging_->add(entry);
      if (!ok) return tl::unexpected(ok.error());
      acknowledge(owner, message);
      return true;
    }
    case MessageKind::signal: {
      SignalEntry entry;
      std::memcpy(&entry, message.entries.data(), sizeof entry);
      if (!apply_signal_({entry.instance, entry.context, entry.signal, entry.value})) {
        return fail(ErrorCode::not_found, "signal ", entry.signal, " of context ", entry.context,
                    " in set ", entry.instance, " does not exist");
      }
      return true;
    }
    case MessageKind::read_reply:
    case MessageKind::ack: {
      auto ok = finish(owner, message);
      if (!ok) return tl::unexpected(ok.error());
      return true;
    }
  }
  return fail(ErrorCode::invalid_argument, "a message of unknown kind");
}

/// False: no buffer for the answer; later again.
Result<bool> RemoteImpl::answer_read(Owner& owner, const Incoming& message) {
  auto entries = read_entries(message.head, message.entries);
  if (!entries) return tl::unexpected(entries.error());
  Outgoing answer;
  answer.head.kind = MessageKind::read_reply;
  answer.head.request = message.head.request;
  answer.buffer = links_->outbound().take();
  if (answer.buffer == nullptr) return false;
  auto size = staging_->gather(*entries, answer.buffer);
  if (!size) {
    links_->outbound().give(answer.buffer);
    return tl::unexpected(size.error());
  }
  answer.head.payload = *size;
  links_->send(owner.rank, std::move(answer));
  return true;
}

void RemoteImpl::acknowledge(Owner& owner, const Incoming& message) {
  Outgoing answer;
  answer.head.request = message.head.request;
  links_->send(owner.rank, std::move(answer));
}

/// An answer: lands a read's bytes and closes the request.
Result<void> RemoteImpl::finish(Owner& owner, const Incoming& message) {
  auto found = owner.requests.find(message.head.request);
  if (found == owner.requests.end()) {
    return fail(ErrorCode::invalid_argument, "an answer to request ", message.head.request,
                ", which is not open");
  }
  Request request = std::move(found->second);
  owner.requests.erase(found);
  std::uint64_t expected = 0;
  if (message.head.kind == MessageKind::read_reply) {
    std::vector<Copy> scatter;
    for (const RemoteCopy& copy : request.copies) {
      scatter.push_back({message.buffer + expected, copy.local, copy.size, 0, 0});
      expected += copy.size;
    }
    if (expected != message.head.payload) {
      return fail(ErrorCode::invalid_argument, "a reply of ", message.head.payload, " bytes to ",
                  expected, " asked for");
    }
    auto ok = staging_->run(scatter);
    if (!ok) return ok;
  }
  request.ticket->open.fetch_sub(1, std::memory_order_release);
  return {};
}

}  // namespace

Result<std::unique_ptr<Remote>> make_remote(Device& device, Mesh& mesh, Regions& regions,
                                            ApplySignal apply_signal,
                                            std::function<void(Error)> on_error) {
  auto remote = std::make_unique<RemoteImpl>(device, regions, mesh.self(), std::move(apply_signal),
                                             std::move(on_error));
  auto ok = remote->set_up(mesh);
  if (!ok) return tl::unexpected(ok.error());
  return remote;
}

}  // namespace engram::gin_plugin
