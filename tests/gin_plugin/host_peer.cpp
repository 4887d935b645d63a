// One rank on plain memory in a process of its own, for tests across network namespaces and for
// loopback figures: host_peer RANK NUM_RANKS FOLDER. Ranks find each other by files in FOLDER.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engram/gin_plugin/descriptor.hpp"
#include "engram/gin_plugin/fabric.hpp"
#include "harness.hpp"

namespace engram::gin_plugin {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::size_t kRegion = 8 << 20;
constexpr std::size_t kHalf = kRegion / 2;

std::byte byte_of(std::uint32_t rank, std::size_t at) {
  return static_cast<std::byte>((at * 131 + rank * 17 + at / 251) & 0xff);
}

std::vector<std::array<std::byte, abi::kHandleBytes>> trade_handles(
    const std::string& folder, std::uint32_t rank, std::uint32_t num_ranks,
    const std::array<std::byte, abi::kHandleBytes>& mine) {
  const auto path = [&](std::uint32_t r) { return fs::path(folder) / fmt::format("rank{}", r); };
  std::ofstream(path(rank).string() + ".part", std::ios::binary)
      .write(reinterpret_cast<const char*>(mine.data()), mine.size());
  fs::rename(path(rank).string() + ".part", path(rank));
  std::vector<std::array<std::byte, abi::kHandleBytes>> all(num_ranks);
  for (std::uint32_t r = 0; r < num_ranks; ++r) {
    while (!fs::exists(path(r))) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(path(r), std::ios::binary)
        .read(reinterpret_cast<char*>(all[r].data()), abi::kHandleBytes);
  }
  return all;
}

int run(std::uint32_t rank, std::uint32_t num_ranks, const std::string& folder) {
  auto report = [&](const Error& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.message.c_str());
    return 1;
  };
  if (rank >= num_ranks) {
    return report({ErrorCode::invalid_argument, fmt::format("there are {} ranks", num_ranks)});
  }
  auto settings = read_settings(environment_variable);
  if (!settings) return report(settings.error());
  std::array<std::byte, abi::kHandleBytes> mine;
  auto listener = open_listener(*settings, mine);
  if (!listener) return report(listener.error());
  const auto handles = trade_handles(folder, rank, num_ranks, mine);
  std::vector<const std::byte*> pointers;
  for (const auto& handle : handles) pointers.push_back(handle.data());
  auto device = make_host_device({});
  auto memory = device->allocate_shared(Bytes{kRegion});
  if (!memory) return report(memory.error());
  std::byte* data = memory->get();
  for (std::size_t i = 0; i < kHalf; ++i) data[i] = byte_of(rank, i);
  auto fabric = Fabric::connect(std::move(device), *settings, **listener, pointers, Rank{rank},
                                [&](bool, const std::string& text) {
                                  std::fprintf(stderr, "rank %u: %s\n", rank, text.c_str());
                                });
  if (!fabric) return report(fabric.error());
  auto region = (*fabric)->register_region(data, Bytes{kRegion}, false, 0);
  if (!region) return report(region.error());
  auto set = (*fabric)->create_gpi({8, 8, 4, 0});
  if (!set) return report(set.error());

  const std::uint32_t next = (rank + 1) % num_ranks;
  testing::Gpu gpu(handle_of(*set), 0, num_ranks);
  Operation op;
  op.peer = next;
  op.remote = op.local = id_of(*region);
  int wrong = 0;
  auto get = [&](std::uint32_t count, std::uint32_t size) {
    const auto begin = Clock::now();
    for (std::uint32_t i = 0; i < count; ++i) {
      op.remote_offset = std::uint64_t{i} * size % (kHalf - size + 1);
      op.local_offset = kHalf + op.remote_offset;
      op.size = size;
      gpu.post(op);
    }
    const std::uint64_t ticket = gpu.flush(next);
    if (!testing::eventually([&] { return gpu.flushed(next) >= ticket; })) ++wrong;
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  auto check = [&](std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data[kHalf + i] != byte_of(next, i)) ++wrong;
    }
  };
  get(1, 256);
  check(256);
  double one = 1;
  for (int i = 0; i < 50; ++i) one = std::min(one, get(1, 256));
  const double many = get(12288, 256);
  check(12288 * 256);
  const double large = get(1, kHalf);
  check(kHalf);
  // A signal around the ring: rank 0 starts it, everyone passes it on.
  Operation signal;
  signal.code = OpCode::write_signal_add;
  signal.peer = next;
  signal.signal = 2;
  signal.signal_value = 1;
  if (rank == 0) gpu.post(signal);
  if (!testing::eventually([&] { return gpu.signal(2) == 1; })) ++wrong;
  if (rank != 0) gpu.post(signal);
  const std::uint64_t ticket = gpu.flush(next);
  if (!testing::eventually([&] { return gpu.flushed(next) >= ticket; })) ++wrong;
  if ((*fabric)->error()) ++wrong;
  if (rank == 0 && wrong == 0) {  // else they would be times of operations that failed
    std::printf("{\"get256_us\":%.1f,\"get12288x256_Mps\":%.3f,\"get_4MiB_GBps\":%.2f}\n",
                one * 1e6, 12288 / many / 1e6, kHalf / large / 1e9);
  }
  // Nobody leaves while others still read from it.
  (*fabric)->destroy(*set);
  auto last = (*fabric)->register_region(data, Bytes{kRegion}, false, 0);
  std::printf("rank %u: %d wrong\n", rank, wrong);
  if (last) (*fabric)->deregister_region(*last);
  (*fabric)->deregister_region(*region);
  memory->reset();
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace engram::gin_plugin

int main(int argc, char** argv) {
  CLI::App app("One rank of the GIN plugin on plain memory");
  std::uint32_t rank = 0, num_ranks = 2;
  std::string folder;
  app.add_option("rank", rank)->required();
  app.add_option("num_ranks", num_ranks)->required();
  app.add_option("folder", folder)->required();
  CLI11_PARSE(app, argc, argv);
  return engram::gin_plugin::run(rank, num_ranks, folder);
}
