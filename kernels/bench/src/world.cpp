#include "world.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

namespace engram::bench {
namespace {

IndexSets upload(int device, const std::vector<std::vector<std::int64_t>>& sets) {
  IndexSets out;
  out.count = static_cast<std::int64_t>(sets[0].size());
  for (const auto& set : sets) {
    out.sets.push_back(gpu_memory(device, {set.size() * 8}));
    must(cudaMemcpy(out.sets.back().get(), set.data(), set.size() * 8, cudaMemcpyHostToDevice),
         "indices");
  }
  auto sorted = sets[0];
  std::sort(sorted.begin(), sorted.end());
  const auto distinct = std::unique(sorted.begin(), sorted.end()) - sorted.begin();
  out.distinct_share = static_cast<double>(distinct) / static_cast<double>(sorted.size());
  return out;
}

}  // namespace

Memory gpu_memory(int device, Bytes size) {
  void* memory = nullptr;
  must(cudaSetDevice(device), "device");
  must(cudaMalloc(&memory, size.count), "GPU memory");
  return {static_cast<std::byte*>(memory), [](std::byte* m) { cudaFree(m); }};
}

Memory host_memory(Bytes size, int threads) {
  constexpr std::size_t kHuge = 2 << 20;
  const std::size_t bytes = align_up(size, {kHuge}).count;
  void* raw =
      mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw Error{ErrorCode::internal, "mmap of " + std::to_string(bytes) + " bytes failed"};
  }
  auto* const start = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(raw) + kHuge - 1) / kHuge * kHuge);
  madvise(start, bytes, MADV_HUGEPAGE);
  std::vector<std::jthread> touching;
  for (int t = 0; t < threads; ++t) {
    touching.emplace_back([=] {
      for (std::size_t at = static_cast<std::size_t>(t) * kHuge; at < bytes;
           at += static_cast<std::size_t>(threads) * kHuge) {
        for (std::size_t page = 0; page < kHuge; page += 4096) start[at + page] = std::byte{1};
      }
    });
  }
  touching.clear();
  must(cudaHostRegister(start, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
       "pinning host memory");
  return {start, [raw, bytes](std::byte* m) {
            cudaHostUnregister(m);
            munmap(raw, bytes + kHuge);
          }};
}

IndexSets uniform_indices(int device, std::int64_t count, std::int64_t first, std::int64_t range,
                          std::uint64_t seed, int num_sets) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::int64_t>> sets(static_cast<std::size_t>(num_sets));
  for (auto& set : sets) {
    for (std::int64_t i = 0; i < count; ++i) {
      set.push_back(first +
                    static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range)));
    }
  }
  return upload(device, sets);
}

IndexSets zipf_indices(int device, std::int64_t count, std::int64_t first, std::int64_t range,
                       std::uint64_t seed, int num_sets) {
  constexpr std::uint64_t kScatter = 0x9e37'79b9'7f4a'7c15ull;  // odd: a permutation of 2^k rows
  std::vector<double> below(static_cast<std::size_t>(range));
  double sum = 0;
  for (std::size_t r = 0; r < below.size(); ++r) below[r] = sum += 1.0 / static_cast<double>(r + 1);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> anywhere(0, sum);
  std::vector<std::vector<std::int64_t>> sets(static_cast<std::size_t>(num_sets));
  for (auto& set : sets) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto rank = static_cast<std::uint64_t>(
          std::lower_bound(below.begin(), below.end() - 1, anywhere(random)) - below.begin());
      set.push_back(first +
                    static_cast<std::int64_t>(rank * kScatter % static_cast<std::uint64_t>(range)));
    }
  }
  return upload(device, sets);
}

Reader::Reader(int device, Bytes output_bytes, Bytes workspace_bytes)
    : clock(device),
      output_size(output_bytes),
      workspace_size(workspace_bytes),
      output(gpu_memory(device, output_bytes)),
      workspace(gpu_memory(device, workspace_bytes)),
      wrong(gpu_memory(device, {8})) {}

kernels::GatherRowsArgs make_args(const TableView& table, std::int64_t count, int row_bytes) {
  constexpr int kEntries = 24;  // a token of the reference's default fetch
  kernels::GatherRowsArgs args;
  args.entries_per_token = count % kEntries == 0 ? kEntries : 1;
  args.num_tokens = count / args.entries_per_token;
  args.row_bytes = row_bytes;
  const auto owners = static_cast<std::int64_t>(table.owners.size());
  args.layers[0].entries_per_owner =
      kernels::FastDivide(static_cast<std::uint64_t>(table.rows_per_owner));
  args.layers[0].num_rows = table.rows_per_owner * owners;
  std::copy(table.owners.begin(), table.owners.end(), args.owners.inline_base.begin());
  args.owners.num_owners = static_cast<int>(owners);
  return args;
}

ExpectedWords expected_words(const TableView& table) {
  ExpectedWords expected;
  std::copy(table.first_words.begin(), table.first_words.end(), expected.first_word);
  return expected;
}

const char* name_of(How how) {
  return how == How::queued ? "queued" : how == How::graph ? "graph" : "wall";
}

Fetch::Fetch(Reader& reader, kernels::GatherRowsArgs args, IndexSets indices,
             kernels::FetchPlan plan, ExpectedWords expected)
    : reader_(&reader),
      args_(args),
      indices_(std::move(indices)),
      plan_(plan),
      expected_(expected) {
  args_ = this->args(0);
  must(cudaSetDevice(reader.clock.device()), "device");
  must(kernels::prepare_fetch(args_, plan_, reader.workspace.get(), reader.clock.stream()));
}

kernels::GatherRowsArgs Fetch::args(int round) const {
  constexpr std::uint64_t kMostPlaces = 16;
  auto args = args_;
  const auto bytes = static_cast<std::uint64_t>(args.num_rows()) *
                     static_cast<std::uint64_t>(args.fetched_row_bytes());
  const std::uint64_t places =
      std::clamp<std::uint64_t>(reader_->output_size.count / bytes, 1, kMostPlaces);
  args.indices = indices_.at(round);
  args.fetched = reader_->output.get() + static_cast<std::uint64_t>(round) % places * bytes;
  return args;
}

void Fetch::launch(int round, cudaStream_t stream) const {
  must(kernels::launch_fetch_rows(args(round), plan_, reader_->workspace.get(),
                                  reader_->workspace_size, stream));
}

std::uint64_t Fetch::count_wrong(const Launcher& launcher) const {
  const cudaStream_t stream = reader_->clock.stream();
  must(cudaSetDevice(reader_->clock.device()), "device");
  auto* const counter = reinterpret_cast<unsigned long long*>(reader_->wrong.get());
  must(cudaMemsetAsync(counter, 0, 8, stream), "counter");
  for (int round = 0; round < 2; ++round) {
    const auto args = this->args(round);
    must(cudaMemsetAsync(args.fetched, 0xa5,
                         static_cast<std::size_t>(args.num_rows()) *
                             static_cast<std::size_t>(args.fetched_row_bytes()),
                         stream),
         "poison");
    launcher(round, stream);
    must(launch_count_wrong(args, expected_, counter, stream));
  }
  unsigned long long wrong = 0;
  must(cudaMemcpyAsync(&wrong, counter, 8, cudaMemcpyDeviceToHost, stream), "counter");
  must(cudaStreamSynchronize(stream), "check of fetched bytes");
  return wrong;
}

std::uint64_t Fetch::count_wrong() const {
  return count_wrong([this](int round, cudaStream_t stream) { launch(round, stream); });
}

Times time_by(How how, Clock& clock, int repeats, const Launcher& launcher) {
  switch (how) {
    case How::queued:
      return clock.queued(repeats, launcher);
    case How::graph:
      return clock.graph(repeats, launcher);
    case How::wall:
      return clock.wall(repeats, launcher);
  }
  throw Error{ErrorCode::internal, "unknown way to time"};
}

}  // namespace engram::bench
