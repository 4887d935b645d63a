// The adapter to SimGrid: nothing else includes its headers. Model and add_model are installed but
// semi-internal and differ between versions, so this is for the one version that it was tested
// with.
#include "engram/sim/engine.hpp"

#include <fmt/format.h>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>

#include <simgrid/version.h>  // needs the macros of the headers above

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

namespace engram::sim {
namespace sg4 = simgrid::s4u;

static_assert(SIMGRID_VERSION >= 33200 && SIMGRID_VERSION < 33300,
              "engram::sim is tested with SimGrid 3.32 (Debian 12: libsimgrid-dev) and no other");

namespace {

constexpr std::uint32_t kTimeout = 1;  // a = actor, b = number of its wait
constexpr std::uint32_t kNone = 0xFFFFFFFF;
constexpr int kStoppedWaitsAllowed = 1000;

struct WaitingActor {
  sg4::SemaphorePtr wake;
  std::uint32_t semaphore = kNone;  // what it waits for; kNone = a point in time
  bool waiting = false, finished = false;
  std::uint64_t wait_number = 0;  // tells a stale timeout from the current one
  Picos until{0};
  Wake outcome = Wake::acquired;
  int waits_after_stop = 0;
};

struct Counter {
  std::string label;
  std::uint64_t count = 0;
  std::deque<std::uint32_t> waiters;
};

sg4::Engine& simgrid_engine(const EngineOptions& options) {
  if (!sg4::Engine::has_instance()) {
    static std::vector<std::string> words = {
        "engram", "--log=root.thres:critical",
        "--cfg=contexts/stack-size:" + std::to_string(options.stack_kib)};
    if (options.thread_contexts) words.emplace_back("--cfg=contexts/factory:thread");
    static std::vector<char*> pointers;
    pointers.clear();
    for (std::string& word : words) pointers.push_back(word.data());
    int count = static_cast<int>(pointers.size());
    new sg4::Engine(&count, pointers.data());  // deleted by ~Impl
  }
  return *sg4::Engine::get_instance();
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(const EngineOptions& options)
      : options_(options), simgrid_(simgrid_engine(options)) {
    base_ = sg4::Engine::get_clock();
    model_ = std::make_shared<FabricModel>(*this);
    simgrid_.add_model(model_);
    auto* root = sg4::create_empty_zone("cluster");
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      hosts_.push_back(root->create_host(name, 1e9));
    }
    root->seal();  // else a second engine of the process crashes
    actors_.resize(options.ranks);
    alive_ = this;
  }

  ~Impl() {
    alive_ = nullptr;
    for (WaitingActor& actor : actors_) actor.wake.reset();
    delete &simgrid_;
  }

  static bool one_is_alive() { return alive_ != nullptr; }

  Result<void> run(std::function<void(Rank)> body) {
    require(!ran_, "an Engine runs once");
    ran_ = true;
    if (options_.watchdog > Picos{0}) watchdog_ = options_.watchdog;
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
      actors_[rank].wake = sg4::Semaphore::create(0);
      auto work = [this, rank, &body] {
        try {
          body(Rank{rank});
        } catch (const simgrid::ForcefulKillException&) {
          throw;
        } catch (const std::exception& thrown) {
          stop({ErrorCode::internal, fmt::format("rank {} threw: {}", rank, thrown.what())});
        }
        actors_[rank].finished = true;
        ++finished_;
      };
      const std::string name = "rank" + std::to_string(rank);
      const auto actor = sg4::Actor::create(name, hosts_[rank], work);
      if (rank == 0) first_pid_ = actor->get_pid();
      require(actor->get_pid() == first_pid_ + static_cast<aid_t>(rank),
              "actors are numbered in the order of their creation");
    }
    simgrid_.run();
    if (error_.has_value()) return tl::unexpected<Error>(*error_);
    return {};
  }

  void release(std::uint32_t semaphore, std::uint64_t count) {
    Counter& counter = counters_[semaphore];
    counter.count += count;
    while (counter.count > 0 && !counter.waiters.empty()) {
      const std::uint32_t actor = counter.waiters.front();
      counter.waiters.pop_front();
      --counter.count;
      wake(actor, Wake::acquired);
    }
  }

  Wake wait(std::uint32_t semaphore, std::optional<Picos> until) {
    require(!in_model_, "only an actor can wait");
    const std::uint32_t self = self_index();
    WaitingActor& actor = actors_[self];
    if (error_.has_value()) {
      require(++actor.waits_after_stop < kStoppedWaitsAllowed,
              "an actor whose wait answered `stopped` must return");
      return Wake::stopped;
    }
    if (semaphore != kNone) {
      Counter& counter = counters_[semaphore];
      if (counter.count > 0) {
        --counter.count;
        return Wake::acquired;
      }
      counter.waiters.push_back(self);
    }
    actor.semaphore = semaphore;
    actor.waiting = true;
    ++actor.wait_number;
    if (until.has_value()) {
      actor.until = *until;
      events_.push(std::max(*until, now_), kTimeout, self, actor.wait_number);
    }
    actor.wake->acquire();
    return actor.outcome;
  }

  void stop(Error error) {
    if (error_.has_value()) return;
    error_ = std::move(error);
    for (std::uint32_t actor = 0; actor < actors_.size(); ++actor) {
      if (actors_[actor].waiting) wake(actor, Wake::stopped);
    }
    for (Counter& counter : counters_) counter.waiters.clear();
  }

  EngineOptions options_;
  std::vector<Counter> counters_;
  EventQueue events_;
  EventHandler* handler_ = nullptr;
  Picos now_{0};
  bool in_model_ = false;
  std::optional<Error> error_;

 private:
  // Advances through the events until one wakes an actor; SimGrid sees only those instants.
  class FabricModel : public simgrid::kernel::resource::Model {
   public:
    explicit FabricModel(Impl& impl) : Model("EngramFabric"), impl_(impl) {}
    bool next_occurring_event_is_idempotent() override { return false; }
    double next_occurring_event(double /*longest*/) override { return impl_.advance(); }
    void update_actions_state(double /*now*/, double /*delta*/) override { impl_.wake_due(); }

   private:
    Impl& impl_;
  };

  double advance() {
    if (finished_ == actors_.size()) return -1;
    in_model_ = true;
    while (due_.empty() && !events_.empty()) step();
    if (due_.empty() && !error_.has_value())
      stop({ErrorCode::deadlock, "deadlock: " + waiting_report()});
    in_model_ = false;
    if (due_.empty()) return -1;
    return std::max(0.0,
                    base_ + static_cast<double>(now_.count()) * 1e-12 - sg4::Engine::get_clock());
  }

  void step() {
    const Event event = events_.pop();
    now_ = Picos{event.time};
    if (watchdog_.has_value() && now_ > *watchdog_ && !error_.has_value()) {
      stop({ErrorCode::timed_out, fmt::format("the simulated time passed {} us: {}",
                                              to_micros(*watchdog_), waiting_report())});
      return;
    }
    if (event.kind != kTimeout) {
      require(handler_ != nullptr, "events of a handler need a handler");
      handler_->handle(event);
      return;
    }
    WaitingActor& actor = actors_[event.a];
    if (!actor.waiting || actor.wait_number != event.b) return;
    if (actor.semaphore != kNone) {
      auto& waiters = counters_[actor.semaphore].waiters;
      waiters.erase(std::find(waiters.begin(), waiters.end(), event.a));
    }
    wake(event.a, Wake::timed_out);
  }

  void wake(std::uint32_t actor, Wake outcome) {
    actors_[actor].waiting = false;
    actors_[actor].outcome = outcome;
    if (in_model_) {
      due_.push_back(actor);
    } else {
      actors_[actor].wake->release();
    }
  }

  void wake_due() {
    for (const std::uint32_t actor : due_) actors_[actor].wake->release();
    due_.clear();
  }

  std::string waiting_report() const {
    std::string text;
    std::size_t listed = 0, waiting = 0;
    for (std::uint32_t rank = 0; rank < actors_.size(); ++rank) {
      const WaitingActor& actor = actors_[rank];
      if (!actor.waiting) continue;
      ++waiting;
      if (++listed > kListed) continue;
      if (actor.semaphore == kNone) {
        fmt::format_to(std::back_inserter(text), "rank {} sleeps until {} us; ", rank,
                       to_micros(actor.until));
      } else {
        fmt::format_to(std::back_inserter(text), "rank {} waits for {}; ", rank,
                       counters_[actor.semaphore].label);
      }
    }
    fmt::format_to(std::back_inserter(text), "{} of {} ranks wait at {} us", waiting,
                   actors_.size(), to_micros(now_));
    if (handler_ != nullptr) {
      std::string pending;
      handler_->describe_pending(pending);
      if (!pending.empty()) text += "; pending: " + pending;
    }
    return text;
  }

  std::uint32_t self_index() const {
    return static_cast<std::uint32_t>(sg4::this_actor::get_pid() - first_pid_);
  }

  static constexpr std::size_t kListed = 16;  // lines of a report
  static inline Impl* alive_ = nullptr;       // SimGrid allows one engine at a time

  sg4::Engine& simgrid_;
  double base_ = 0;  // SimGrid's clock is never reset: its value when this engine was made
  std::shared_ptr<FabricModel> model_;
  std::vector<sg4::Host*> hosts_;
  std::vector<WaitingActor> actors_;
  std::vector<std::uint32_t> due_;
  std::optional<Picos> watchdog_;
  std::size_t finished_ = 0;
  aid_t first_pid_ = 0;
  bool ran_ = false;
};

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  if (options.ranks == 0)
    return fail(ErrorCode::invalid_argument, "an engine needs at least 1 rank");
  if (Impl::one_is_alive()) {
    return fail(ErrorCode::invalid_argument,
                "another simulated run is alive in this process; SimGrid allows one at a time");
  }
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(options)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<void> Engine::run(std::function<void(Rank)> body) { return impl_->run(std::move(body)); }
std::uint32_t Engine::num_ranks() const { return impl_->options_.ranks; }
Picos Engine::now() const { return impl_->now_; }
bool Engine::in_model() const { return impl_->in_model_; }
EventQueue& Engine::events() { return impl_->events_; }
void Engine::set_handler(EventHandler* handler) { impl_->handler_ = handler; }

SemaphoreId Engine::create_semaphore(std::string label, std::uint64_t count) {
  impl_->counters_.push_back({std::move(label), count, {}});
  return SemaphoreId{static_cast<std::uint32_t>(impl_->counters_.size() - 1)};
}

void Engine::release(SemaphoreId semaphore, std::uint64_t count) {
  impl_->release(semaphore.value, count);
}
Wake Engine::acquire(SemaphoreId semaphore) { return impl_->wait(semaphore.value, std::nullopt); }
Wake Engine::acquire_for(SemaphoreId semaphore, Picos limit) {
  return impl_->wait(semaphore.value, impl_->now_ + limit);
}
Wake Engine::sleep_until(Picos time) { return impl_->wait(kNone, time); }
void Engine::stop(Error error) { impl_->stop(std::move(error)); }
bool Engine::stopped() const { return impl_->error_.has_value(); }

std::string simgrid_version() {
  return fmt::format("SimGrid {}.{}.{}", SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR,
                     SIMGRID_VERSION_PATCH);
}

}  // namespace engram::sim
