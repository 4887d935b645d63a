// Data, signals and counters through all ways that memory can be reached.
#include <random>

#include "harness.hpp"
#include "region.hpp"

namespace engram::gin_plugin::testing {
namespace {

std::byte byte_of(std::uint32_t rank, std::size_t at) {
  return static_cast<std::byte>((at * 131 + rank * 17 + at / 251) & 0xff);
}

void fill(Member& m, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) m.memory.get()[i] = byte_of(m.rank, i);
}

Operation copy_op(const Member& m, OpCode code, std::uint32_t peer, std::uint64_t remote,
                  std::uint64_t local, std::uint32_t size) {
  Operation op;
  op.code = code;
  op.peer = peer;
  op.remote = op.local = m.id();
  op.remote_offset = remote;
  op.local_offset = local;
  op.size = size;
  return op;
}

TEST_P(Ways, GetsFetchThePeersBytes) {
  run_ranks(world(), [](Member& m) {
    constexpr std::size_t kHalf = 1 << 15;
    fill(m, kHalf);
    m.meet();
    std::mt19937 random(m.rank + 1);
    for (std::uint32_t context = 0; context < 2; ++context) {
      Gpu gpu = m.gpu(context);
      for (std::uint32_t peer = 0; peer < m.num_ranks; ++peer) {
        std::vector<Operation> ops;
        std::uint64_t at = kHalf;
        while (at + 700 < 2 * kHalf) {
          const auto size = static_cast<std::uint32_t>(1 + random() % 600);
          ops.push_back(copy_op(m, OpCode::read, peer, random() % (kHalf - 600), at, size));
          at += size;
        }
        for (const auto& op : ops) gpu.post(op);
        const std::uint64_t ticket = gpu.flush(peer);
        ASSERT_TRUE(eventually([&] { return gpu.flushed(peer) >= ticket; }));
        for (const auto& op : ops) {
          for (std::size_t i = 0; i < op.size; ++i) {
            ASSERT_EQ(m.memory.get()[op.local_offset + i], byte_of(peer, op.remote_offset + i));
          }
        }
      }
    }
  });
}

TEST_P(Ways, SignalsFollowTheirPutsAndAllBefore) {
  run_ranks(world(), [](Member& m) {
    constexpr std::uint32_t kPuts = 50, kBytes = 256;
    fill(m, 1 << 14);
    m.meet();
    const std::uint32_t next = (m.rank + 1) % m.num_ranks;
    const std::uint32_t before = (m.rank + m.num_ranks - 1) % m.num_ranks;
    Gpu gpu = m.gpu(1);
    for (std::uint32_t i = 0; i < kPuts; ++i) {
      const bool last = i + 1 == kPuts;
      Operation op = copy_op(m, last ? OpCode::write_signal_add : OpCode::write, next,
                             (1 << 15) + i * kBytes, i * kBytes, kBytes);
      op.signal = 3;
      op.signal_value = 0x100000007ull;
      if (last) op.flags = kCounted;
      op.counter = 2;
      gpu.post(op);
    }
    ASSERT_TRUE(eventually([&] { return gpu.signal(3) == 0x100000007ull; }));
    for (std::uint32_t i = 0; i < kPuts * kBytes; ++i) {
      ASSERT_EQ(m.memory.get()[(1 << 15) + i], byte_of(before, i)) << i;
    }
    ASSERT_TRUE(eventually([&] { return gpu.counter(2) == 1; }));
  });
}

TEST_P(Ways, InlineValuesAddsAndResets) {
  run_ranks(world(), [](Member& m) {
    const std::uint32_t next = (m.rank + 1) % m.num_ranks;
    Gpu gpu = m.gpu(0);
    Operation put = copy_op(m, OpCode::write_inline_signal_increment, next, 1000, 0, 8);
    put.local = 0;
    put.inline_value = 0x1122334455667788ull;
    put.signal = 1;
    put.signal_value = 1;
    gpu.post(put);
    ASSERT_TRUE(eventually([&] { return gpu.signal(1) == 1; }));
    std::uint64_t seen = 0;
    std::memcpy(&seen, m.memory.get() + 1000, 8);
    ASSERT_EQ(seen, put.inline_value);

    Operation add = copy_op(m, OpCode::atomic_add, next, 2048, 0, 8);
    add.local = 0;
    for (std::uint64_t value : {5, 6, 7}) {
      add.inline_value = value;
      gpu.post(add);
    }
    auto* word = reinterpret_cast<std::uint64_t*>(m.memory.get() + 2048);
    ASSERT_TRUE(eventually([&] { return std::atomic_ref(*word).load() == 18; }));

    Operation counted = copy_op(m, OpCode::write, next, 4096, 0, 16);
    counted.flags = kCounted;
    counted.counter = 1;
    gpu.post(counted);
    ASSERT_TRUE(eventually([&] { return gpu.counter(1) == 1; }));
    Operation reset;
    reset.code = OpCode::counter_reset;
    reset.counter = 1;
    gpu.post(reset);
    gpu.post(counted);
    ASSERT_TRUE(eventually([&] { return gpu.counter(1) == 1; }));
    gpu.post(counted);
    ASSERT_TRUE(eventually([&] { return gpu.counter(1) == 2; }));
  });
}

TEST_P(Ways, ARingManyTimesItsDepth) {
  World w = world();
  w.settings.ring_depth = 64;
  run_ranks(w, [](Member& m) {
    fill(m, 1 << 15);
    m.meet();
    Gpu gpu = m.gpu(0);
    const std::uint32_t next = (m.rank + 1) % m.num_ranks;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      gpu.post(copy_op(m, OpCode::read, next, i * 8, (1 << 15) + i * 8, 8));
    }
    const std::uint64_t ticket = gpu.flush(next);
    ASSERT_TRUE(eventually([&] { return gpu.flushed(next) >= ticket; }));
    for (std::uint32_t i = 0; i < 8000; ++i) {
      ASSERT_EQ(m.memory.get()[(1 << 15) + i], byte_of(next, i));
    }
  });
}

// The RMA interface: puts with a signal in memory that only the plugin changes, gets and flushes.
TEST_P(Ways, RmaPutsSignalAndGetsLand) {
  run_ranks(world(), [](Member& m) {
    constexpr std::uint32_t kRounds = 20, kBytes = 300;
    fill(m, 1 << 14);
    auto words = m.device->allocate(Bytes{64});
    ASSERT_TRUE(words.has_value());
    auto signals =
        m.fabric->register_region(words->get(), Bytes{64}, false, abi::kRegionSignalNeverReset);
    ASSERT_TRUE(signals.has_value()) << signals.error().message;
    auto set = m.fabric->create_rma(2);
    ASSERT_TRUE(set.has_value());
    m.meet();
    auto finish = [&](RmaRequest* request) {
      ASSERT_TRUE(eventually([&] { return is_done(request); }));
      give_back(request);
    };
    const std::uint32_t next = (m.rank + 1) % m.num_ranks;
    const std::uint32_t before = (m.rank + m.num_ranks - 1) % m.num_ranks;
    const auto* word = reinterpret_cast<std::uint64_t*>(words->get()) + 3;
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      Operation put = copy_op(m, OpCode::write, next, (1 << 15) + i * kBytes, i * kBytes, kBytes);
      put.signal_value = 2;
      auto request = m.fabric->post(*set, 1, put, *signals, 24);
      ASSERT_TRUE(request.has_value());
      finish(*request);
      ASSERT_TRUE(eventually([&] {
        return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load() >= 2 * (i + 1);
      }));
      for (std::uint32_t k = 0; k < kBytes; ++k) {
        ASSERT_EQ(m.memory.get()[(1 << 15) + i * kBytes + k], byte_of(before, i * kBytes + k));
      }
    }
    auto got =
        m.fabric->post(*set, 0, copy_op(m, OpCode::read, next, 64, 1 << 14, 5000), nullptr, 0);
    Operation flush;
    flush.code = OpCode::peer_flush;
    flush.peer = next;
    auto flushed = m.fabric->post(*set, 0, flush, nullptr, 0);
    ASSERT_TRUE(got.has_value() && flushed.has_value());
    finish(*flushed);
    ASSERT_TRUE(is_done(*got)) << "a flush is done after what came before it";
    give_back(*got);
    for (std::uint32_t k = 0; k < 5000; ++k) {
      ASSERT_EQ(m.memory.get()[(1 << 14) + k], byte_of(next, 64 + k));
    }
    m.meet();
    m.fabric->destroy(*set);
    m.fabric->deregister_region(*signals);
  });
}

INSTANTIATE_TEST_SUITE_P(Memory, Ways,
                         ::testing::Values(Way{"mapped", true, Transport::automatic, 0, 2},
                                           Way{"mapped_slow", true, Transport::automatic, 40, 3},
                                           Way{"owner_served", false, Transport::automatic, 0, 2},
                                           Way{"tcp", true, Transport::tcp, 0, 2},
                                           Way{"tcp_slow", true, Transport::tcp, 40, 4}),
                         name_of_way);

// CPU memory that every rank of the host has imported: NCCL_SYM_REUSE_SYSMEM_HANDLES says it is the
// same in all, so one's own mapping serves; without it the owner does.
TEST(Imported, OwnMappingServesWhenTold) {
  for (const bool reuse : {true, false}) {
    World w;
    w.settings.reuse_host_mappings = reuse;
    w.device.other_memory_on_host = true;
    std::vector<std::byte> common(8192);
    for (std::size_t i = 0; i < 4096; ++i) common[i] = byte_of(9, i);
    run_ranks(w, [&](Member& m) {
      auto region = m.fabric->register_region(common.data(), Bytes{common.size()}, true, 0);
      ASSERT_TRUE(region.has_value()) << region.error().message;
      const Stretch there = locate(**region, Rank{1 - m.rank}, 100, 50);
      EXPECT_EQ(there.mapped, reuse ? common.data() + 100 : nullptr);
      Operation op = copy_op(m, OpCode::read, 1 - m.rank, 100, 0, 2000);
      op.remote = id_of(*region);
      Gpu gpu = m.gpu(0);
      gpu.post(op);
      const std::uint64_t ticket = gpu.flush(op.peer);
      ASSERT_TRUE(eventually([&] { return gpu.flushed(op.peer) >= ticket; }));
      for (std::size_t i = 0; i < 2000; ++i) ASSERT_EQ(m.memory.get()[i], byte_of(9, 100 + i));
      m.meet();
      m.fabric->deregister_region(*region);
    });
  }
}

// Contexts go while their descriptors are still being read: nothing crashes and nobody hangs.
TEST(Teardown, UnderLoad) {
  for (const Transport transport : {Transport::automatic, Transport::tcp}) {
    World w;
    w.settings.transport = transport;
    w.device.polls_until_done = 200;
    w.errors_expected = true;  // a peer may find the other's region gone
    run_ranks(w, [](Member& m) {
      for (std::uint32_t context = 0; context < 2; ++context) {
        Gpu gpu = m.gpu(context);
        for (std::uint32_t i = 0; i < 1500; ++i) {
          gpu.post(copy_op(m, OpCode::read, 1 - m.rank, i * 8, (1 << 15) + i * 8, 8));
        }
      }
    });
  }
}

// An operation that names what does not exist ends everything with one error, and nothing waits.
TEST(Errors, ABadRequestEndsWhatWaitsAndReachesThePeers) {
  World w;
  w.errors_expected = true;
  run_ranks(w, [](Member& m) {
    Gpu gpu = m.gpu(0);
    if (m.rank == 0) {
      gpu.post(copy_op(m, OpCode::read, 1, (1 << 16) - 8, 0, 64));  // past the region's end
      const std::uint64_t ticket = gpu.flush(1);
      EXPECT_TRUE(eventually([&] { return gpu.flushed(1) >= ticket; }));
    }
    // Both ranks: the error is told, and a wait for any signal ends.
    EXPECT_TRUE(eventually([&] { return m.fabric->error().has_value(); }));
    EXPECT_TRUE(eventually([&] { return gpu.signal(5) >= 1; }));
    const std::string text = m.fabric->error()->message;
    EXPECT_NE(text.find("64 bytes from 65528"), std::string::npos) << text;
  });
}

TEST(Errors, AnUnknownRegionIsNamed) {
  World w;
  w.errors_expected = true;
  run_ranks(w, [](Member& m) {
    Gpu gpu = m.gpu(0);
    Operation op = copy_op(m, OpCode::write, 0, 0, 0, 8);
    op.remote = 4711;
    gpu.post(op);
    const std::uint64_t ticket = gpu.flush(0);
    EXPECT_TRUE(eventually([&] { return gpu.flushed(0) >= ticket; }));
    EXPECT_TRUE(eventually([&] { return m.fabric->error().has_value(); }));
  });
}

// Signals in a region of the RMA interface grow as well, so that a kernel's wait for one ends.
TEST(Errors, RmaSignalsEndTheirWaits) {
  World w;
  w.errors_expected = true;
  run_ranks(w, [](Member& m) {
    auto words = m.device->allocate(Bytes{64});
    auto signals =
        m.fabric->register_region(words->get(), Bytes{64}, false, abi::kRegionSignalNeverReset);
    auto set = m.fabric->create_rma(1);
    ASSERT_TRUE(signals.has_value() && set.has_value());
    m.meet();
    if (m.rank == 0) {
      auto bad = m.fabric->post(*set, 0, copy_op(m, OpCode::read, 1, 1 << 20, 0, 64), nullptr, 0);
      ASSERT_TRUE(bad.has_value());
      EXPECT_TRUE(eventually([&] { return is_done(*bad); }));
    }
    auto* word = reinterpret_cast<std::uint64_t*>(words->get());
    EXPECT_TRUE(eventually([&] { return std::atomic_ref(*word).load() > 0; }));
    m.meet();
    m.fabric->destroy(*set);
    m.fabric->deregister_region(*signals);
  });
}

// A word that has carried a VA signal grows as well, whoever adds to it: the sender or the owner.
TEST(Errors, VaSignalsEndTheirWaits) {
  for (const Way way : {Way{"mapped", true, Transport::automatic, 0, 2},
                        Way{"owner_served", false, Transport::automatic, 0, 2},
                        Way{"tcp", true, Transport::tcp, 0, 2}}) {
    World w;
    w.errors_expected = true;
    w.exportable = way.exportable;
    w.settings.transport = way.transport;
    run_ranks(w, [&](Member& m) {
      constexpr std::size_t kWord = 2048, kOther = 2056;
      Gpu gpu = m.gpu(0);
      Operation add = copy_op(m, OpCode::atomic_add, 1 - m.rank, kWord, 0, 8);
      add.inline_value = 1;
      gpu.post(add);
      auto at = [&](std::size_t offset) {
        return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(m.memory.get() + offset)).load();
      };
      ASSERT_TRUE(eventually([&] { return at(kWord) == 1; })) << way.name;
      m.meet();
      if (m.rank == 0) gpu.post(copy_op(m, OpCode::read, 7, 0, 0, 8));  // no such peer
      EXPECT_TRUE(eventually([&] { return at(kWord) > 2; })) << way.name;
      EXPECT_EQ(at(kOther), 0u) << "other words stay";
    });
  }
}

// Memory of the device outlives a fabric that could not connect and took the device with it.
TEST(Errors, SharedMemoryOutlivesAFailedConnect) {
  Settings settings = World::quiet_settings();
  std::array<std::byte, abi::kHandleBytes> mine{}, foreign{};
  auto listener = open_listener(settings, mine);
  ASSERT_TRUE(listener.has_value());
  foreign.fill(std::byte{0x5a});
  auto device = make_host_device({});
  auto memory = device->allocate_shared(Bytes{4096});
  ASSERT_TRUE(memory.has_value());
  const std::byte* handles[2] = {mine.data(), foreign.data()};
  const auto fabric = Fabric::connect(std::move(device), settings, **listener, handles, Rank{0},
                                      [](bool, const std::string&) {});
  ASSERT_FALSE(fabric.has_value());
  EXPECT_EQ(fabric.error().code, ErrorCode::invalid_argument);
  memory->get()[4095] = std::byte{1};
  memory->reset();
}

TEST(Errors, APeerThatDiesIsTold) {
  for (const Transport transport : {Transport::automatic, Transport::tcp}) {
    World w;
    w.errors_expected = true;
    w.settings.transport = transport;
    run_ranks(w, [](Member& m) {
      // A process that dies closes its sockets without a goodbye; here its rank fails by itself.
      if (m.rank == 1) {
        Gpu gpu = m.gpu(0);
        Operation op = copy_op(m, OpCode::read, 7, 0, 0, 8);  // no such peer
        gpu.post(op);
      }
      EXPECT_TRUE(eventually([&] { return m.fabric->error().has_value(); }));
      Gpu gpu = m.gpu(1);
      const std::uint64_t ticket = gpu.flush(1 - m.rank);
      EXPECT_TRUE(eventually([&] { return gpu.flushed(1 - m.rank) >= ticket; }));
    });
  }
}

}  // namespace
}  // namespace engram::gin_plugin::testing
