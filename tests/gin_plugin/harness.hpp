// Several ranks in one process on plain memory: everything of the plugin but CUDA and NCCL.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engram/gin_plugin/descriptor.hpp"
#include "engram/gin_plugin/fabric.hpp"

namespace engram::gin_plugin::testing {

/// Plays the GPU: writes descriptors into a context's ring and polls its counters and signals.
/// Threads may share a context, as warps do: slots and tickets are handed out by atomic adds.
class Gpu {
 public:
  Gpu(abi::DeviceHandle* handle, std::uint32_t context, std::uint32_t num_ranks)
      : channel_(reinterpret_cast<abi::Channel*>(
            static_cast<std::byte*>(handle->handle) +
            context * (sizeof(abi::Channel) + num_ranks * sizeof(std::uint64_t)))),
        num_ranks_(num_ranks) {}

  void post(const Operation& op) {
    const std::uint64_t depth = std::uint64_t{1} << channel_->log_depth;
    const std::uint64_t index = std::atomic_ref(channel_->produced).fetch_add(1);
    while (index - load(channel_->consumed->value) >= depth) std::this_thread::yield();
    const bool owner = (index >> channel_->log_depth & 1) != 0;
    const DescriptorWords words = encode(op, owner);
    auto* slot = reinterpret_cast<std::uint64_t*>(channel_->ring) + (index & (depth - 1)) * 8;
    // In reverse, as a bus may deliver them: the reader must not take half a descriptor.
    for (std::size_t i = words.size(); i-- > 0;) {
      std::atomic_ref(slot[i]).store(words[i], std::memory_order_release);
    }
  }
  /// flushAsync: the counter's value to wait for.
  std::uint64_t flush(std::uint32_t peer) {
    auto* tickets = reinterpret_cast<std::uint64_t*>(channel_ + 1);
    const std::uint64_t ticket = std::atomic_ref(tickets[peer]).fetch_add(1);
    Operation op;
    op.code = OpCode::peer_flush;
    op.flags = kCounted | 1 << 2;
    op.peer = peer;
    op.counter = static_cast<std::uint16_t>(flush_counter(peer));
    post(op);
    return ticket + 1;
  }
  [[nodiscard]] std::uint64_t flushed(std::uint32_t peer) const {
    return counter(flush_counter(peer));
  }
  [[nodiscard]] std::uint64_t counter(std::uint64_t index) const {
    return load(channel_->counters[index].value);
  }
  [[nodiscard]] std::uint64_t signal(std::uint32_t index) const {
    return load(channel_->signals[index].value);
  }

 private:
  static std::uint64_t load(std::uint64_t& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t flush_counter(std::uint32_t peer) const {
    const auto counters = (reinterpret_cast<std::byte*>(channel_->signals) -
                           reinterpret_cast<std::byte*>(channel_->counters)) /
                          64;
    return static_cast<std::uint64_t>(counters) - num_ranks_ + peer;
  }

  abi::Channel* channel_;
  std::uint32_t num_ranks_;
};

inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct World {
  Settings settings = quiet_settings();
  HostDeviceOptions device;
  std::uint32_t num_ranks = 2;
  std::size_t region_bytes = 1 << 16;
  bool exportable = true;
  ContextConfig contexts{2, 8, 4, 0};
  bool errors_expected = false;

  static Settings quiet_settings() {
    Settings settings;
    settings.workers = 1;
    settings.address = "127.0.0.1";
    settings.exchange_limit = std::chrono::seconds(20);
    settings.spin_time = std::chrono::milliseconds(1);
    return settings;
  }
};

/// One rank, connected, with one region registered and one set of GPI contexts.
struct Member {
  std::uint32_t rank = 0;
  std::uint32_t num_ranks = 0;
  HostDevice* device = nullptr;
  std::unique_ptr<Fabric> fabric;
  Block memory;
  Region* region = nullptr;
  ContextSet* set = nullptr;
  std::function<void()> meet;  ///< a barrier of all members

  [[nodiscard]] Gpu gpu(std::uint32_t context) const {
    return Gpu(handle_of(set), context, num_ranks);
  }
  [[nodiscard]] std::uint16_t id() const { return id_of(region); }
};

/// Connects `world.num_ranks` members, one thread each, and runs `body` in each.
inline void run_ranks(const World& world, const std::function<void(Member&)>& body) {
  std::vector<ListenerPtr> listeners;
  std::vector<std::array<std::byte, abi::kHandleBytes>> handles(world.num_ranks);
  std::vector<const std::byte*> pointers;
  for (auto& handle : handles) {
    auto listener = open_listener(world.settings, handle);
    ASSERT_TRUE(listener.has_value()) << listener.error().message;
    listeners.push_back(std::move(*listener));
    pointers.push_back(handle.data());
  }
  std::atomic<std::uint32_t> arrived{0};
  auto meet = [&] {
    const std::uint32_t mine = arrived.fetch_add(1);
    const std::uint32_t goal = (mine / world.num_ranks + 1) * world.num_ranks;
    while (arrived.load() < goal) std::this_thread::yield();
  };
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < world.num_ranks; ++r) {
    threads.emplace_back([&, r] {
      Member member;
      member.rank = r;
      member.num_ranks = world.num_ranks;
      member.meet = meet;
      auto device = make_host_device(world.device);
      member.device = device.get();
      auto memory = world.exportable ? device->allocate_shared(Bytes{world.region_bytes})
                                     : device->allocate(Bytes{world.region_bytes});
      ASSERT_TRUE(memory.has_value());
      member.memory = std::move(*memory);
      auto fabric = Fabric::connect(std::move(device), world.settings, *listeners[r], pointers,
                                    Rank{r}, [](bool, const std::string&) {});
      ASSERT_TRUE(fabric.has_value()) << fabric.error().message;
      member.fabric = std::move(*fabric);
      auto region =
          member.fabric->register_region(member.memory.get(), Bytes{world.region_bytes}, false, 0);
      ASSERT_TRUE(region.has_value()) << region.error().message;
      member.region = *region;
      auto set = member.fabric->create_gpi(world.contexts);
      ASSERT_TRUE(set.has_value()) << set.error().message;
      member.set = *set;
      meet();
      body(member);
      meet();
      if (!world.errors_expected) {
        const auto error = member.fabric->error();
        EXPECT_FALSE(error.has_value()) << (error ? error->message : "");
      }
      if (member.fabric) {
        member.fabric->destroy(member.set);
        member.fabric->deregister_region(member.region);
      }
      member.memory.reset();
      member.fabric.reset();
    });
  }
  for (auto& thread : threads) thread.join();
}

/// How ranks reach one another's memory.
struct Way {
  const char* name;
  bool exportable;
  Transport transport;
  unsigned polls;
  std::uint32_t ranks;
};

class Ways : public ::testing::TestWithParam<Way> {
 protected:
  [[nodiscard]] static World world() {
    World w;
    w.exportable = GetParam().exportable;
    w.settings.transport = GetParam().transport;
    w.device.polls_until_done = GetParam().polls;
    w.num_ranks = GetParam().ranks;
    return w;
  }
};

inline std::string name_of_way(const ::testing::TestParamInfo<Way>& way) { return way.param.name; }

}  // namespace engram::gin_plugin::testing
